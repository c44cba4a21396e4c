# The last stage contains only what the injector needs to run. A release pins the base image by digest. To find the digest:
#   docker buildx imagetools inspect python:3.13-slim --format '{{.Manifest.Digest}}'
#   docker build --build-arg PYTHON=python:3.13-slim@sha256:... .
ARG PYTHON=python:3.13-slim
# What the image is made from, for its labels: --build-arg REVISION=$(git rev-parse HEAD) --build-arg CREATED=$(date -u +%Y-%m-%dT%H:%M:%SZ)
ARG VERSION=""
ARG REVISION=""
ARG CREATED=""

FROM ${PYTHON} AS build
WORKDIR /src
ENV UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never
COPY requirements-image.lock ./
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes --requirement requirements-image.lock
ENV PATH=/opt/build/bin:$PATH
COPY requirements.lock ./
RUN uv venv /opt/injector \
 && uv pip install --python /opt/injector --require-hashes --compile-bytecode --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY scripts/sbom scripts/sbom
COPY injector injector
COPY revisions revisions
COPY deploy/chart/crds deploy/chart/crds
RUN uv build --quiet --wheel --no-build-isolation --python /opt/build/bin/python \
 && uv pip install --python /opt/injector --no-deps --compile-bytecode dist/*.whl \
 && scripts/sbom >/opt/injector/sbom.cdx.json

# Removes the shell, the package manager and all setuid programs. The last stage copies the rest as one layer, so no lower layer has them.
FROM ${PYTHON} AS bare
COPY --from=build /opt/injector /opt/injector
# /usr/local/bin/sidecar-injector and /health are the program and the health check file in the charts of Istio 1.0 to 1.4.
RUN ln -s /opt/injector/bin/sidecar-injector /usr/local/bin/sidecar-injector \
 && touch /health \
 && chown 65532:65532 /health \
 && rm -rf /usr/local/bin/pip* /usr/local/lib/python3.*/site-packages/pip* /usr/local/lib/python3.*/ensurepip \
      /usr/bin/apt* /usr/bin/dpkg* /usr/bin/perl* \
 && find / -xdev -type f -perm /6000 -delete \
 && rm -f /bin/bash /bin/dash /bin/sh

FROM scratch
# Everything, but without the layers that still contain the removed files.
# hadolint ignore=DL3067
COPY --from=bare / /
ARG VERSION
ARG REVISION
ARG CREATED
LABEL org.opencontainers.image.title="revision-injector" \
      org.opencontainers.image.description="Injects Istio sidecars for many control-plane revisions from one process" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
ENV PATH=/opt/injector/bin:/usr/local/bin LANG=C.UTF-8 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 9443 8080
# Without a flag or variable that says where the revisions are, `serve` ends with exit code 78 and names them.
ENTRYPOINT ["injector"]
CMD ["serve"]
