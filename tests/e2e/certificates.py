"""A test CA and the certificates that it signs, for servers on the loopback and for clients. Uses
`openssl`, as operators do."""

import os
import subprocess

# Extensions for both kinds of certificates.
EXTENSIONS = """
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = CA:FALSE
subjectAltName = IP:127.0.0.1, DNS:localhost
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[client]
basicConstraints = CA:FALSE
extendedKeyUsage = clientAuth
authorityKeyIdentifier = keyid
"""
NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


class Authority:
    """A CA in a directory. Clients trust the file `certificate`."""

    def __init__(self, directory):
        self._directory = directory
        directory.mkdir(parents=True)
        (directory / "openssl.cnf").write_text(EXTENSIONS)
        self.certificate = directory / "ca.pem"
        made = ["-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=Test CA"]
        self._openssl("req", "-x509", *NEW_KEY, "-config", "openssl.cnf", "-extensions", "authority", *made)

    def issue(self, certificate, key, name="slateberg.example.com", kind="server"):
        """Replaces certificate and key by new ones. Each file is replaced atomically, but not both files together."""
        asked = ["-config", "openssl.cnf", "-subj", f"/CN={name}", "-keyout", "new.key", "-out", "new.csr"]
        self._openssl("req", "-new", *NEW_KEY, *asked)
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1", "-out", "new.pem"]
        self._openssl("x509", "-req", "-in", "new.csr", *signed, "-extfile", "openssl.cnf", "-extensions", kind)
        for made, place in [("new.pem", certificate), ("new.key", key)]:
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(self._directory / made, place)

    def _openssl(self, *words):
        done = subprocess.run(["openssl", *words], cwd=self._directory, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
