"""A server of one's own for programs in this folder, and for programs that they run.

    server.py PATH_TO_GUIRA COMMAND…   starts servers, runs the command with their addresses in its environment,
                                       and ends as it ended

| variable | what it names |
|---|---|
| `GUIRA_PLAIN` | HOST:PORT without encryption |
| `GUIRA_TLS` | HOST:PORT with TLS; the certificate is for localhost and 127.0.0.1 |
| `GUIRA_CERTIFICATE` | file of the certificate (PEM), which is its own authority |
| `GUIRA_UNIX` | path of a UNIX socket |
| `GUIRA_SASL`, `GUIRA_SASL_UNIX` | the same as plain and UNIX, of a server that asks for a user and a password |
| `GUIRA_USER`, `GUIRA_PASSWORD` | what it lets in |
"""

import os
import queue
import subprocess
import sys
import tempfile
import threading

PATIENCE_SECONDS = 30
USER, PASSWORD = "guira", "cuckoo"


class Listening:
    """One server process, killed at the end, and where it listens, in the order of its options."""

    def __init__(self, binary, arguments, common=("serve", "--workers", "2", "--memory", "128MiB")):
        self._process = subprocess.Popen([binary, *common, *arguments], stdout=subprocess.PIPE, text=True)
        self._lines, self._admin = queue.Queue(), queue.Queue()
        # The pipe is drained for as long as the server lives, or the server would wait for room in it.
        threading.Thread(target=self._drain, daemon=True).start()
        count = arguments.count("--listen")
        try:
            self.places = [self._place() for _ in range(count)]
        except queue.Empty:
            self.close()
            raise SystemExit(f"{binary} does not say where it listens") from None

    def _drain(self):
        for line in self._process.stdout:
            if line.startswith("listening on admin "):
                self._admin.put(line.split()[3])
            elif line.startswith("listening on "):
                self._lines.put(line.split()[2])

    def _place(self):
        return self._lines.get(timeout=PATIENCE_SECONDS)

    def admin(self):
        """Where its admin listener is, if it was started with one."""
        return self._admin.get(timeout=PATIENCE_SECONDS)

    def close(self):
        self._process.kill()
        self._process.wait()


class Servers:
    """Two servers: one for anybody, by TCP, TLS and a UNIX socket; one that asks for a password."""

    def __init__(self, binary):
        self._folder = tempfile.TemporaryDirectory(prefix="guira-clients-")
        path = lambda name: os.path.join(self._folder.name, name)  # noqa: E731
        self.certificate, key = path("certificate.pem"), path("key.pem")
        make_certificate(self.certificate, key)
        with open(path("users"), "w", encoding="ascii") as users:
            users.write(f"{USER}:{PASSWORD}\n")
        os.chmod(path("users"), 0o600)
        self.unix, self.sasl_unix = path("socket"), path("sasl-socket")
        tls = ["--tls-cert", self.certificate, "--tls-key", key]
        listen = ["--listen", "notls:127.0.0.1:0", "--listen", "127.0.0.1:0", "--listen", f"unix:{self.unix}"]
        self._open = Listening(binary, [*listen, *tls])
        self.plain, self.tls = (address.removeprefix("notls:") for address in self._open.places[:2])
        listen = ["--listen", "127.0.0.1:0", "--listen", f"unix:{self.sasl_unix}"]
        self._closed = Listening(binary, [*listen, "--protocol", "binary", "--auth-file", path("users")])
        self.sasl = self._closed.places[0]

    def environment(self):
        return {
            "GUIRA_PLAIN": self.plain,
            "GUIRA_TLS": self.tls,
            "GUIRA_CERTIFICATE": self.certificate,
            "GUIRA_UNIX": self.unix,
            "GUIRA_SASL": self.sasl,
            "GUIRA_SASL_UNIX": self.sasl_unix,
            "GUIRA_USER": USER,
            "GUIRA_PASSWORD": PASSWORD,
        }

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._open.close()
        self._closed.close()
        self._folder.cleanup()


def host_and_port(address):
    """The two halves of HOST:PORT."""
    host, port = address.rsplit(":", 1)
    return host, int(port)


def make_certificate(certificate, key):
    """A certificate for localhost that is its own authority, and its key, valid for a day."""
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"]
    command += ["-days", "1", "-subj", "/CN=localhost", "-addext", names, "-out", certificate, "-keyout", key]
    made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if made.returncode != 0:
        raise SystemExit(f"openssl cannot make a certificate:\n{made.stdout}")


def main(arguments):
    if len(arguments) < 2:
        raise SystemExit(__doc__)
    with Servers(arguments[0]) as servers:
        ended = subprocess.run(arguments[1:], env=os.environ | servers.environment(), check=False)
    raise SystemExit(ended.returncode if ended.returncode >= 0 else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
