# The few commands to know. What each does is written in Rust (xtask/); here is only what must work before Rust.
#
#   make serve     build the server and run it, with the options in ARGS
#   make check     format, rules, clippy, unit tests of the crates you changed: a minute or two
#   make test      everything that continuous integration checks
#   make soak      what is too long for every change: more clients; load, full memory, kills and takeovers with every engine
#   make arm64     the tests of Guira for arm64, by an emulator of the processor
#   make sanitize  the tests of the crates with unsafe under the address and thread sanitizers and in Miri
#   make bench     compare servers under the project's loads
#   make papers    measure again what the papers claim, and write docs/results/papers.md
#   make package   a .deb, a tarball and an image, in target/package
#   make release   all that a release has: packages for amd64 and arm64, the Python package, the chart: an hour

CARGO ?= cargo
# Options of the server that `make serve` starts, as ARGS='--memory 1GiB --admin 9150'.
ARGS ?=
SERVER = $(or $(CARGO_TARGET_DIR),target)/quick/guira

.PHONY: serve compilers check test soak arm64 sanitize bench papers package release prerequisites soak-prerequisites arm64-prerequisites

serve: compilers
	$(CARGO) build --profile quick --package guira --no-default-features
	@echo
	@echo "The server is $(SERVER). Try it, in another terminal:"
	@printf '%s\n' "  printf 'set a 0 0 2\\r\\nhi\\r\\nget a\\r\\nquit\\r\\n' | nc 127.0.0.1 11211"
	@echo
	@exec $(SERVER) serve $(ARGS)

# What has to be there before anything is compiled.
compilers:
	@command -v $(CARGO) >/dev/null || { echo "Rust is not installed: see https://rustup.rs"; exit 1; }
	@command -v cc >/dev/null || { echo "A C compiler is not installed (Debian: gcc)"; exit 1; }

check:
	$(CARGO) xtask check

test: prerequisites
	$(CARGO) xtask ci

soak: soak-prerequisites
	$(CARGO) xtask soak

arm64: arm64-prerequisites
	$(CARGO) xtask arm64

sanitize:
	$(CARGO) xtask sanitize

bench:
	$(CARGO) build --release --package guira --package guira-lab
	$(or $(CARGO_TARGET_DIR),target)/release/guira-lab bench

papers: prerequisites
	$(CARGO) build --release --bin guira
	$(CARGO) run --release --manifest-path papers/Cargo.toml

# ARCH=arm64: for arm64, in target/package-arm64.
package:
	$(CARGO) xtask package $(if $(ARCH),--arch $(ARCH))

# In this order: `package` writes the sums of the folder, in which the Python package is then.
release: prerequisites arm64-prerequisites
	$(CARGO) xtask chart
	$(CARGO) xtask wheel
	$(CARGO) xtask package
	$(CARGO) xtask package --arch arm64

# What the tests use besides Rust, as program:package or file:package. In a container without an init system the
# packages start no service.
TEST_NEEDS = memcached:memcached mariadbd:mariadb-server etcd:etcd-server etcdctl:etcd-client /usr/lib/postgresql/*/bin/initdb:postgresql memccapable:libmemcached-tools openssl:openssl ip:iproute2 dpkg-shlibdeps:dpkg-dev promtool:prometheus systemd-sysusers:systemd-standalone-sysusers
SOAK_NEEDS = /usr/sbin/collectd:collectd-core go:golang-go node:nodejs npm:npm chromium:chromium /usr/lib/*/sasl2/libplain.so:libsasl2-modules debootstrap:debootstrap lintian:lintian podman:podman crun:crun
ARM64_NEEDS = aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu /usr/aarch64-linux-gnu/lib/libc.so:libc6-dev-arm64-cross

# Installs it when it can, otherwise says what is missing: steps without it are skipped, each with one line.
prerequisites:
	$(call install,$(TEST_NEEDS))

soak-prerequisites: prerequisites arm64-prerequisites
	$(call install,$(SOAK_NEEDS))

arm64-prerequisites:
	$(call install,$(ARM64_NEEDS))

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
