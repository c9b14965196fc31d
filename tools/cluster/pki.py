"""Certificates and kubeconfigs of a control plane that lives for minutes on 127.0.0.1.

One certificate authority a cluster, and one for the APIs that it aggregates; keys are written readable to this user
only. Not for anything that lasts: every certificate ends after two days and nothing can be revoked.
"""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=2)
SERVICE_IP = "10.0.0.1"
"""First address of the service range, which the API server claims for `kubernetes.default.svc`."""
FRONT_PROXY = "front-proxy-client"
"""Name by which the API server calls the servers of aggregated APIs."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Files of a certificate (or public key) and its private key, both PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class ClusterKeys:
    """All keys of one cluster. `service_accounts` is a bare key pair: it signs tokens, not connections."""

    ca: Path
    server: KeyPair
    admin: KeyPair
    service_accounts: KeyPair
    components: dict[str, KeyPair]
    """Client certificates by the user's name."""
    front_proxy_ca: Path
    """Authority of `front_proxy`, by which servers behind the API server know it."""
    front_proxy: KeyPair


class Authority:
    """Certificate authority that writes its certificate, `<stem>.crt`, and whatever it signs into one folder."""

    def __init__(self, folder: Path, name: str, stem: str = "ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        own = _builder(self._name, self._name, self._key)
        signed = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        self.certificate = folder / f"{stem}.crt"
        self.certificate.write_bytes(signed.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def client(self, stem: str, user: str, group: str | None = None) -> KeyPair:
        """Sign a client's certificate."""
        purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        return self._signed(stem, _name(user, organization=group), purpose)

    def server(
        self, stem: str, user: str, *, names: Sequence[str], addresses: Sequence[str], is_client: bool = False
    ) -> KeyPair:
        """Sign a server's certificate for these DNS names and IP addresses; with `is_client` it may call as well."""
        general: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        general += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, *([ExtendedKeyUsageOID.CLIENT_AUTH] if is_client else [])]
        return self._signed(stem, _name(user), x509.SubjectAlternativeName(general), x509.ExtendedKeyUsage(usages))

    def _signed(self, stem: str, subject: x509.Name, *extensions: x509.ExtensionType) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._name, key)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        pair = KeyPair(self._folder / f"{stem}.crt", self._folder / f"{stem}.key")
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_private(pair.key, _private_pem(key))
        return pair


def write_cluster_keys(
    folder: Path, *, addresses: Sequence[str] = ("127.0.0.1",), components: Mapping[str, str | None] | None = None
) -> ClusterKeys:
    """Make a new authority and everything it signs in `folder`.

    The server answers at these addresses; each component is a user's name with its group.
    """
    authority = Authority(folder, "firsttoken-test-ca")
    front_proxy = Authority(folder, "firsttoken-test-front-proxy-ca", "front-proxy-ca")
    every, names = (*addresses, SERVICE_IP), ("localhost", "kubernetes.default.svc")
    users = components or {}
    return ClusterKeys(
        ca=authority.certificate,
        server=authority.server("server", "kube-apiserver", names=names, addresses=every),
        admin=authority.client("admin", "admin", "system:masters"),
        service_accounts=_token_keys(folder),
        components={user: authority.client(user.replace(":", "-"), user, group) for user, group in users.items()},
        front_proxy_ca=front_proxy.certificate,
        front_proxy=front_proxy.client("front-proxy", FRONT_PROXY),
    )


def write_kubeconfig(path: Path, *, api_url: str, ca: Path, user: dict[str, Any], namespace: str = "default") -> Path:
    """Write a kubeconfig that refers to no other file; `user` is its user entry."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": {"server": api_url, "certificate-authority-data": _base64(ca)}}],
        "users": [{"name": "local", "user": user}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local", "namespace": namespace}}],
        "current-context": "local",
    }
    _write_private(path, yaml.safe_dump(document).encode())
    return path


def certificate_user(pair: KeyPair) -> dict[str, str]:
    """The kubeconfig user entry of a client certificate."""
    return {"client-certificate-data": _base64(pair.certificate), "client-key-data": _base64(pair.key)}


def _token_keys(folder: Path) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    pair = KeyPair(folder / "service-accounts.pub", folder / "service-accounts.key")
    pair.certificate.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    _write_private(pair.key, _private_pem(key))
    return pair


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # NB: tests start processes whose clock is 20 minutes behind.
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
    )


def _name(common_name: str, *, organization: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
