protos: ## Regenerate the stubs
	.venv/bin/python -m tools.generate
