PYTHON ?= python3

.PHONY: venv
venv:
	@requirements/venv.sh $(PYTHON)
