# The operator's image, for amd64 and arm64: docker build -t registry.example.com/firsttoken .
# The result has Python, the packages that the operator and its emulator import, and the libraries that these load:
# no shell, no compiler, no package manager. `make image` builds the same file without a registry.
ARG PYTHON=python:3.11-slim

FROM ${PYTHON} AS packages
RUN python3 -m venv /uv && /uv/bin/pip install --no-cache-dir --disable-pip-version-check uv==0.13.9
WORKDIR /src
ENV UV_PROJECT_ENVIRONMENT=/opt/firsttoken UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never UV_NO_CACHE=1
COPY pyproject.toml uv.lock ./
# scipy is for `firsttoken replay` only, which is no work for a pod.
RUN /uv/bin/uv sync --frozen --no-dev --extra operator --no-install-package scipy --no-install-project
COPY tools/image/runtime_root.py tools/image/bill.py /
RUN /opt/firsttoken/bin/python /runtime_root.py packages /runtime \
 && /uv/bin/uv export --quiet --frozen --no-dev --extra operator --no-emit-package scipy --format cyclonedx1.5 \
    --output-file /runtime/opt/firsttoken/sbom.cdx.json > /dev/null \
 && /opt/firsttoken/bin/python /bill.py /runtime /runtime/opt/firsttoken/sbom.cdx.json

FROM packages AS build
COPY README.md LICENSE ./
COPY operator operator
COPY sizing sizing
COPY crds crds
RUN /uv/bin/uv sync --frozen --no-dev --extra operator --no-install-package scipy --no-editable \
 && /opt/firsttoken/bin/python /runtime_root.py project /project /runtime

# Two layers: what every version has until its packages change, and the version.
FROM scratch AS base
COPY --from=packages /runtime /
ENV PATH=/opt/firsttoken/bin LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
LABEL org.opencontainers.image.title="firsttoken" \
      org.opencontainers.image.description="The fewest GPUs that still answer on time: an operator for LLM inference" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 65532:65532
CMD ["firsttoken", "--help"]

FROM base
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.version="${VERSION}" org.opencontainers.image.revision="${REVISION}"
COPY --from=build /project /
