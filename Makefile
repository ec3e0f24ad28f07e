# The few commands to know. What each does is written in Rust (xtask/); here is only what must work before Rust.
#
#   make serve     build the server and run it
#   make test      everything that continuous integration checks
#   make soak      what is too long for every change: more clients; load, full memory, kills and takeovers with every engine
#   make sanitize  the tests of the crates with unsafe under the address and thread sanitizers
#   make bench     compare servers under the project's loads
#   make papers    measure again what the papers claim, and write docs/papers.md
#   make package   a .deb, a tarball and an image, in target/package

CARGO ?= cargo

.PHONY: serve test soak sanitize bench papers package prerequisites soak-prerequisites

serve:
	$(CARGO) run --release --package guira-cli -- serve

test: prerequisites
	$(CARGO) xtask ci

soak: soak-prerequisites
	$(CARGO) xtask soak

sanitize:
	$(CARGO) xtask sanitize

bench:
	$(CARGO) run --release --package guira-cli -- bench

papers: prerequisites
	$(CARGO) build --release --workspace --bin guira --bin guira-papers
	$(CARGO) run --release --workspace --bin guira-papers

package:
	$(CARGO) xtask package

# What the tests use besides Rust, as program:package or file:package.
TEST_NEEDS = memcached:memcached mariadbd:mariadb-server etcd:etcd-server etcdctl:etcd-client /usr/lib/postgresql/*/bin/initdb:postgresql memccapable:libmemcached-tools openssl:openssl ip:iproute2 dpkg-shlibdeps:dpkg-dev systemd-sysusers:systemd-standalone-sysusers
SOAK_NEEDS = /usr/sbin/collectd:collectd-core go:golang-go node:nodejs npm:npm chromium:chromium /usr/lib/*/sasl2/libplain.so:libsasl2-modules debootstrap:debootstrap lintian:lintian podman:podman crun:crun

# Installs it when it can, otherwise says what is missing: steps without it are skipped, each with one line.
prerequisites:
	$(call install,$(TEST_NEEDS))

soak-prerequisites: prerequisites
	$(call install,$(SOAK_NEEDS))

define install
	@missing=""; \
	for need in $(1); do \
		probe="$${need%:*}"; package="$${need##*:}"; \
		case "$$probe" in \
			/*) ls $$probe >/dev/null 2>&1;; \
			*) command -v "$$probe" >/dev/null;; \
		esac || missing="$$missing $$package"; \
	done; \
	python3 -c 'import venv, ensurepip' 2>/dev/null || missing="$$missing python3-venv"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing \
		|| echo "could not install:$$missing (steps that use it are skipped)"; \
	else \
		echo "not installed:$$missing (steps that use it are skipped)"; \
	fi
endef
