"""What `frontrow top` looks at, computes and draws."""
