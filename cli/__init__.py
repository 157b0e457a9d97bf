"""The command line: `frontrow …`. It talks to the servers over gRPC and to nothing else."""
