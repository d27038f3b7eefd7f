# make demo   train four small models on real text and write runs/demo/report.html
# make arithmetic   train twelve small models on chains of arithmetic and compare them
# make test   the tests; make check: lint, format, types. Each sets up all it needs in .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
BIPE := $(BIN)/bipe
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo arithmetic segmentation test check format clean

demo: .venv/demo.done
	$(BIPE) prepare experiment=demo
	$(BIPE) pretrain -m experiment=demo encoding=rope,bipe_rope,alibi,bipe_alibi
	$(BIPE) evaluate experiment=demo
	$(BIPE) report experiment=demo

arithmetic: .venv/demo.done
	$(BIPE) prepare experiment=arithmetic_small
	$(BIPE) pretrain -m experiment=arithmetic_small \
		encoding=rope,bipe_rope,alibi,bipe_alibi seed=0,1,2
	$(BIPE) evaluate experiment=arithmetic_small
	$(BIPE) report experiment=arithmetic_small
	$(BIN)/python -m benchmarks.arithmetic runs/arithmetic_small

# An hour or two on two cores.
SEGMENTATIONS := natural shuffled newline stride random clauses official flat
COMMA := ,
EMPTY :=
CUT := experiment=$(subst $(EMPTY) $(EMPTY),$(COMMA),$(SEGMENTATIONS:%=segmentation_%))
segmentation: .venv/demo.done
	$(BIPE) prepare -m $(CUT:,segmentation_flat=)
	$(BIPE) pretrain -m $(CUT) seed=0,1,2
	$(BIPE) evaluate -m $(CUT)
	$(BIPE) report experiment=segmentation
	PYTHONPATH=. $(BIN)/python -m benchmarks.seeds $(foreach cut,$(SEGMENTATIONS),\
		$(cut)=runs/segmentation/$(cut)_0,runs/segmentation/$(cut)_1,runs/segmentation/$(cut)_2)

test: .venv/dev.done
	$(BIN)/python -m pytest -n auto --dist loadfile

check: .venv/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/dev.done
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "bipe needs Python 3.11 or newer; this is $$($(PYTHON) -V). make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv .venv

# A target is touched when its install is complete, so that a broken one is done again.
.venv/demo.done: .venv/bin/python pyproject.toml constraints.txt
	@echo "Installing into .venv (a few minutes the first time) ..."
	@$(INSTALL) -e '.[demo]'
	@touch $@

.venv/dev.done: .venv/bin/python pyproject.toml constraints.txt
	@echo "Installing into .venv (a few minutes the first time) ..."
	@$(INSTALL) -e '.[dev]'
	@touch $@

clean:
	rm -rf .venv runs build *.egg-info
