# Every target sets up what it needs in .venv. Variables: STUDY=paper|smoke|full, PDF=auto|latex|typst,
# GPU=auto|live|archive, PYTHON=/path/to/python3, MACHINE=name (promote), ARGS="further options" for snakemake
# or pytest.

STUDY = paper
PDF = auto
GPU = auto
PYTHON =
ARGS =
MACHINE =
BIN = .venv/bin
READY = .venv/.ready
TEX = latexmk lmodern texlive-latex-recommended

.PHONY: help paper smoke full test lint tex compiler promote lock clean model peers cuda

help: ## list all targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' Makefile

paper: $(READY) ## measure the tables, draw the figures, judge the claims, write results/$(STUDY)/paper.pdf
	@$(if $(ARGS),,SUMMARY=later) $(BIN)/python -m snakemake $(ARGS) --config study=$(STUDY) pdf=$(PDF) gpu=$(GPU)
	@$(if $(ARGS),,$(BIN)/python -m layernorm_backward.studies.summary results/$(STUDY))

smoke: ## the same on tiny inputs, in a few minutes (results/smoke/paper.pdf)
	@$(MAKE) --no-print-directory paper STUDY=smoke

full: ## the same on dense grids, in hours (results/full/paper.pdf)
	@$(MAKE) --no-print-directory paper STUDY=full

test: $(READY) ## run the tests, including a tiny study through to its PDF
	@touch .venv/.tested
	@$(BIN)/python -m pytest -n 2 --dist loadgroup $(ARGS)
	@[ ! results/test/paper.pdf -nt .venv/.tested ] || $(BIN)/python -m layernorm_backward.studies.summary results/test

lint: $(READY) ## check the style of the Python code and of the workflow
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m snakefmt --check Snakefile workflow
	@$(BIN)/python workflow/lint.py

tex: ## install TeX on Debian-like systems, for a PDF by LaTeX
	@sh workflow/tex.sh $(TEX)

compiler: ## install g++ on Debian-like systems, for tests that run the CUDA sources on the CPU
	@sh workflow/compiler.sh

model: $(READY) ## install the trained encoder for the experiments model and model_error (87 MB to download)
	@sh workflow/model.sh

peers: $(READY) ## install PyTorch, JAX and Flax, to audit and time them beside our kernels (0.5 to 3 GB to download)
	@sh workflow/peers.sh

cuda: $(READY) ## install CuPy, NVIDIA's compiler and disassembler; no GPU needed (168 MB to download)
	@sh workflow/cuda.sh

promote: $(READY) ## copy a run's tables into results/archive/MACHINE
	@$(BIN)/python -m layernorm_backward promote results/$(STUDY) "$(MACHINE)"

lock: ## resolve the dependencies of pyproject.toml into requirements.lock, workflow/model.lock and cuda.lock
	@command -v uv >/dev/null || { echo "make lock needs uv: install it (pipx install uv), then run make lock again" >&2; exit 1; }
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --group dev pyproject.toml -o requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-deps --no-emit-index-url --group model -o workflow/model.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-deps --no-emit-index-url --group cuda -o workflow/cuda.lock

clean: ## remove all results except the archive, and the caches of the tools
	find results -mindepth 1 -maxdepth 1 ! -name archive -exec rm -rf {} +
	rm -rf .snakemake .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -prune -exec rm -rf {} +

ifneq ($(shell cat $(READY) 2>/dev/null),$(CURDIR))
.PHONY: $(READY)
endif
$(READY): requirements.lock pyproject.toml workflow/set-up.sh
	@sh workflow/set-up.sh "$(PYTHON)"
