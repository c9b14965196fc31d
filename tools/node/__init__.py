"""A real Kubernetes node on this machine: kubelet, containerd, runc and pods, without a registry.

    with Node(images=[image().archive]) as node:
        node.kubectl("get", "nodes")

The node, its control plane, its network and its cgroups are in namespaces of their own; everything ends with the
process that started it. Nothing is installed: packages of Debian are unpacked into the cache, programs of Kubernetes
are built from the control plane's modules. Needs root and cgroup v1.
"""
