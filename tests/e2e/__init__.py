"""The whole product on a real control plane: operator process, emulated fleet, real Prometheus."""
