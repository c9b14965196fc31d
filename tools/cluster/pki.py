"""Certificates and kubeconfigs of a control plane that lives for minutes on 127.0.0.1.

One certificate authority a cluster, keys written readable to this user only. Not for anything that lasts: every
certificate ends after two days and nothing can be revoked.
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


def write_cluster_keys(
    folder: Path, *, addresses: Sequence[str] = ("127.0.0.1",), components: Mapping[str, str | None] | None = None
) -> ClusterKeys:
    """Make a new authority and everything it signs in `folder`.

    The server answers at these addresses; each component is a user's name with its group.
    """
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("firsttoken-test-ca")
    ca = _builder(ca_name, ca_name, ca_key).add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
    ca_path = folder / "ca.crt"
    ca_path.write_bytes(ca.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def signed(stem: str, subject: x509.Name, *extensions: x509.ExtensionType) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, ca_name, key)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        certificate = builder.sign(ca_key, hashes.SHA256())
        pair = KeyPair(folder / f"{stem}.crt", folder / f"{stem}.key")
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_private(pair.key, _private_pem(key))
        return pair

    def client(stem: str, user: str, group: str | None) -> KeyPair:
        purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        return signed(stem, _name(user, organization=group), purpose)

    ips = [x509.IPAddress(ipaddress.ip_address(address)) for address in (*addresses, SERVICE_IP)]
    names = [x509.DNSName(name) for name in ("localhost", "kubernetes.default.svc")]
    return ClusterKeys(
        ca=ca_path,
        server=signed(
            "server",
            _name("kube-apiserver"),
            x509.SubjectAlternativeName([*names, *ips]),
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        ),
        admin=client("admin", "admin", "system:masters"),
        service_accounts=_token_keys(folder),
        components={user: client(user.replace(":", "-"), user, group) for user, group in (components or {}).items()},
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
