# Two stages: what builds stays behind. Pin PYTHON by digest in a release: --build-arg PYTHON=python:3.13-slim@sha256:...
ARG PYTHON=python:3.13-slim

FROM ${PYTHON} AS build
WORKDIR /src
RUN python -m venv /opt/build && python -m venv --without-pip /opt/injector
COPY requirements.lock requirements-build.lock ./
RUN /opt/build/bin/pip install --no-cache-dir --require-hashes --requirement requirements-build.lock \
 && /opt/build/bin/pip --python /opt/injector/bin/python install --no-cache-dir --require-hashes --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY injector injector
COPY revisions revisions
RUN /opt/build/bin/hatchling build --target wheel \
 && /opt/build/bin/pip --python /opt/injector/bin/python install --no-cache-dir --no-deps dist/*.whl

FROM ${PYTHON}
COPY --from=build /opt/injector /opt/injector
ENV PATH=/opt/injector/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 9443 8080
ENTRYPOINT ["injector"]
CMD ["serve"]
