# make demo   train four small models on real text and write runs/demo/report.html
# make arithmetic   train twelve small models on chains of arithmetic and compare them
# make encodings   train a model for each position encoding and compare them
# make docs   the documentation site, in build/site/index.html
# make lock   requirements.lock: constraints.txt with the hashes of PyPI
# make test   the tests; make check: lint, format, types. Each sets up all it needs in .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
BIPE := $(BIN)/bipe
PIP_IS_WHOLE := "from importlib.metadata import files; import pip, sys; \
	sys.exit(not all(map(lambda file: file.locate().exists(), files('pip'))))"
# pip writes INSTALLER when the files of a package are there: one without was interrupted, and would pass as installed.
INSTALL := find .venv/lib -name '*.dist-info' ! -exec test -e {}/INSTALLER \; -prune -exec rm -rf {} + && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
# pip compiles nothing: a module is compiled when it is first imported, and kept even where a container forbids it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo docs lock arithmetic segmentation encodings encodings_bilevel test fuzz test_hf test_hf_oldest test_lightning_oldest check format clean

# One model per core, each on one thread: more tokens per second in all than one after another on every core.
DEMO := experiment=demo
# nproc prints OMP_NUM_THREADS where it is set.
CORES := $(shell env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || sysctl -n hw.ncpu)
demo: export OMP_NUM_THREADS := 1
demo: .venv/demo.done
	$(BIPE) prepare $(DEMO)
	@echo "Training and measuring rope, bipe_rope, alibi and bipe_alibi, $(CORES) at a time ..."
	@printf '%s\n' rope bipe_rope alibi bipe_alibi | xargs -P $(CORES) -I NAME bash -o pipefail -c \
		'{ $(BIPE) pretrain $(DEMO) encoding=NAME && $(BIPE) evaluate $(DEMO) evaluate.runs=runs/demo/NAME && \
		{ [ NAME != bipe_rope ] || $(BIPE) report $(DEMO); }; } 2>&1 | sed "s/^/NAME: /"'
	$(BIPE) report $(DEMO)

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

# One model per encoding of conf/encoding: first those that train at 0.5 to 1 times the speed of RoPE,
# then the others, the fastest first; all of them with one seed before the next. 1.4M tokens each, so
# 3 to 6 minutes on two cores at 9,000 to 4,000 tokens/s, and up to 25 for content at 1,000: about
# four hours per seed, and one for the evaluation, of which RoPE takes a minute and TENER seven
# (estimated from 5 to 12 steps of each on a shared machine). For less:
#   make encodings SEEDS=0 ENCODINGS="rope alibi fox"
# `make encodings_bilevel` trains the same within BiPE, over segments, and reports on both.
COSTLY := kerple_power t5 tupe fire xlnet cope deberta shaw transformer_xl tener
SCHEMES := $(shell grep -lE '/encoding@|^  - (bilevel|hirope)|HiRoPE|Chain' conf/encoding/*.yaml)
# The data of the comparison have one level of segments.
SEVERAL := multilevel segatron segatron_xl
ENCODINGS := $(filter-out bilevel $(SEVERAL) $(COSTLY),$(basename $(notdir $(wildcard conf/encoding/*.yaml)))) \
	$(COSTLY)
LEVELS := $(filter-out $(basename $(notdir $(SCHEMES))),$(ENCODINGS))
INTRA := learned
listed = $(subst $(EMPTY) $(EMPTY),$(COMMA),$(strip $(1)))
encodings: .venv/demo.done
	$(BIPE) prepare experiment=compare
	$(BIPE) pretrain -m experiment=compare seed=$(SEEDS) encoding=$(call listed,$(ENCODINGS))
	$(BIPE) evaluate experiment=compare
	$(BIPE) report experiment=compare

TWICE := experiment=compare out=runs/compare_bilevel data=runs/compare/data
encodings_bilevel: encodings
	$(BIPE) pretrain -m $(TWICE) seed=$(SEEDS) encoding=bilevel \
		encoding@encoding.intra=$(INTRA) encoding@encoding.inter=$(call listed,$(LEVELS))
	$(BIPE) evaluate $(TWICE)
	$(BIPE) report $(TWICE) 'report.runs=["runs/compare/*_?","runs/compare_bilevel/*_?"]'

# A worker more than cores: many tests wait, for a process, a lock or a signal.
WORKERS = $(shell expr $(CORES) + 1)
test: .venv/dev.done
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --ignore tests/bipe/hf
	@$(MAKE) --no-print-directory -j3 test_hf test_hf_oldest test_lightning_oldest

# With transformers, which the tests before do without.
test_hf: .venv/hf.done
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder tests/bipe/hf tests/test_rooms.py tests/trust/test_names.py

# The lower bound of the extra `hf`, found before the newer one of constraints.txt. What it needs is the same.
OLDEST := .venv/transformers-5.20.0
test_hf_oldest: $(OLDEST)
	PYTHONPATH=$(OLDEST) $(BIN)/python -m pytest -m oldest_transformers tests/bipe/hf

# Our modules in a Trainer of the oldest Lightning whose users are served, found before the newer one.
OLDEST_LIGHTNING := .venv/lightning-2.4.0
test_lightning_oldest: $(OLDEST_LIGHTNING)
	PYTHONPATH=$(OLDEST_LIGHTNING) $(BIN)/python -m pytest -m oldest_lightning tests/train/test_own_trainer.py

# The tests that draw their examples, with sixteen times as many.
fuzz: .venv/dev.done
	$(BIN)/python -m pytest -n auto -m hypothesis --hypothesis-profile long --ignore tests/bipe/hf

docs: .venv/docs.done
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# From PyPI alone, whatever this machine is set up to use: hashes of its files for every system.
lock: .venv/created
	$(INSTALL) uv
	env -u PIP_FIND_LINKS -u UV_FIND_LINKS $(BIN)/uv pip compile --no-config --quiet --universal --python-version 3.11 \
		--generate-hashes --no-annotate --no-header \
		-c constraints.txt --extra code --extra demo --extra hf --extra scrolls \
		--output-file requirements.lock pyproject.toml

check: .venv/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers $(CORES)

format: .venv/dev.done
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# An environment whose creation failed or was killed has a python but no whole pip, and is made again; one
# that is whole is kept, whoever made it.
.venv/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "bipe needs Python 3.11 or newer; this is $$($(PYTHON) -V). make PYTHON=..."; exit 1; }
	@$(BIN)/python -c $(PIP_IS_WHOLE) 2>/dev/null || { rm -rf .venv && $(PYTHON) -m venv .venv; } || \
		{ rm -rf .venv; echo "bipe needs python -m venv (Debian: apt install python3-venv)"; exit 1; }
	@touch $@

# A target is touched when its install is complete, so that a broken one is done again.
.venv/demo.done: .venv/created pyproject.toml constraints.txt
	@echo "Installing into .venv (a few minutes the first time) ..."
	@$(INSTALL) -e '.[demo]'
	@touch $@

.venv/dev.done: .venv/created pyproject.toml constraints.txt
	@echo "Installing into .venv (a few minutes the first time) ..."
	@$(INSTALL) -e '.[dev]'
	@touch .venv/demo.done $@

.venv/docs.done: .venv/demo.done
	@$(INSTALL) -e '.[demo,docs]'
	@touch $@

.venv/hf.done: .venv/dev.done
	@$(INSTALL) -e '.[dev,hf,lm-eval,trl]'
	@touch $@

$(OLDEST): .venv/hf.done
	@rm -rf $@ $@.part
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --target $@.part \
		transformers==$(@:.venv/transformers-%=%)
	@mv $@.part $@ && touch $@

$(OLDEST_LIGHTNING): .venv/hf.done
	@rm -rf $@ $@.part
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --target $@.part \
		lightning==$(@:.venv/lightning-%=%)
	@mv $@.part $@ && touch $@

clean:
	rm -rf .venv runs build *.egg-info
