# Every target sets itself up from python3, pip and make alone; a second call does no install work.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test check bench format clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev,bench]'
	touch $@

demo: $(READY)          ## the main job: Figure 2 at laptop scale, policies side by side, agents that explore, a report
	$(BIN)/optimist study figure2 --scale laptop --out runs/demo/figure2 --overwrite
	$(BIN)/optimist bandit --out runs/demo/bandit --overwrite
	rm -rf runs/demo/deepsea runs/demo/rooms
	$(BIN)/optimist train --env DeepSea-20 --bonus acb --total-steps 120000 --out runs/demo/deepsea
	$(BIN)/optimist train --env MiniGrid-MultiRoom-N4-S5-v0 --env-options level=0 --bonus acb --stop-at-success 0.9 \
		--total-steps 250000 --out runs/demo/rooms
	$(BIN)/optimist play runs/demo/deepsea --steps 200
	$(BIN)/optimist play runs/demo/rooms --steps 200
	$(BIN)/optimist report runs/demo/figure2 runs/demo/deepsea runs/demo/rooms --out runs/demo/report.html

test: check             ## every check and every test
	$(BIN)/pytest -n 2 --dist worksteal

check: $(READY)         ## lint, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check
	$(BIN)/lint-imports

bench: $(READY)         ## ratios measured side by side on this machine
	for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) runs .pytest_cache .hypothesis .ruff_cache
