# Every target sets itself up from python3, pip and make alone; a second call does no install work.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DEMO   := $(VENV)/.demo
READY  := $(VENV)/.ready
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
OUT    := runs/demo

.PHONY: demo test check docs bench campaign format clean

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)

$(DEMO): pyproject.toml constraints.txt | $(BIN)/pip    # what the demo needs, nothing for development
	@echo "Setting up: pip installs what the demo needs into $(VENV)."
	test -e $(READY) || $(PIP) -e '.[cli,rl]'
	touch $@

$(READY): pyproject.toml constraints.txt | $(BIN)/pip
	@echo "Setting up: pip installs everything, with the tools of development, into $(VENV)."
	$(PIP) -e '.[all,dev,docs,bench]'
	touch $@

demo: $(DEMO)           ## the main job: Figure 2, policies side by side, two agents that explore, a report
	@echo; echo "The demo takes two to five minutes on two cores. Ctrl-C ends it; calling it again starts anew."
	rm -rf $(OUT)
	@echo; echo "1 of 5  Figure 2 of the paper: regret against the size of the ensemble (half a minute)"
	$(BIN)/optimist study figure2 --scale laptop --out $(OUT)/figure2
	@echo; echo "2 of 5  Bandit policies side by side on one problem (half a minute)"
	$(BIN)/optimist bandit --out $(OUT)/bandit
	@echo; echo "3 of 5  An agent looks for the treasure of DeepSea-20, where random play finds it once in a million episodes (a minute)"
	$(BIN)/optimist train --env DeepSea-20 --bonus acb --total-steps 160000 --stop-at-success 0.9 --out $(OUT)/deepsea
	@echo; echo "4 of 5  An agent learns to cross six rooms with closed doors (a minute)"
	$(BIN)/optimist train --env MiniGrid-MultiRoom-N4-S5-v0 --env-options level=0 --bonus acb --stop-at-success 0.9 \
		--total-steps 150000 --out $(OUT)/rooms
	@echo; echo "5 of 5  Both agents watched at play, and one page about all of it (half a minute)"
	$(BIN)/optimist play $(OUT)/deepsea --steps 200
	$(BIN)/optimist play $(OUT)/rooms --steps 200
	$(BIN)/optimist report $(OUT)/figure2 $(OUT)/deepsea $(OUT)/rooms --out $(OUT)/report.html
	@echo; echo "Done. Open $(OUT)/report.html, $(OUT)/figure2/figure2.png, $(OUT)/rooms/play/player.html"

test: check             ## every check and every test
	$(BIN)/pytest -n 2 --dist worksteal

check: $(READY)         ## lint, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check
	$(BIN)/lint-imports

docs: $(READY)          ## the documentation site, into site/
	$(BIN)/mkdocs build --strict --quiet
	@echo "Open site/index.html"

bench: $(READY)         ## ratios measured side by side on this machine
	for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

campaign: $(READY)      ## tests that take too long for make test, 200 kills of real runs, and the soak of ACB, into results/
	$(BIN)/pytest -n 2 --dist worksteal -m campaign
	$(BIN)/python benchmarks/fault_campaign.py --kills 200
	$(BIN)/python benchmarks/soak.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) runs site .pytest_cache .hypothesis .ruff_cache
