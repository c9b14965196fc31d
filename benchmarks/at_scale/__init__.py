"""Parts of the benchmark at scale: many resources on the local control plane, ours and KEDA's in one run."""
