# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
#
# The app with its vector engine and a multilingual model, ready to run without a network but Nextcloud's.
#
#   docker build -t semantic_search .                                   for CPUs
#   docker build -t semantic_search --build-arg TORCH_INDEX=URL .       for NVIDIA: the index of wheels for your CUDA
#                                                                       (https://pytorch.org/get-started/locally)

ARG PYTHON=3.12-slim-bookworm
ARG QDRANT=v1.19.0
ARG FRP=v0.61.1

FROM qdrant/qdrant:${QDRANT} AS qdrant

# The release of frp that HaRP itself speaks.
FROM ghcr.io/fatedier/frpc:${FRP} AS frp

FROM python:${PYTHON} AS build
ARG TORCH=2.13.0
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH
RUN pip install --extra-index-url "${TORCH_INDEX}" "torch==${TORCH}"
WORKDIR /src
COPY pyproject.toml README.md ./
COPY LICENSES LICENSES
COPY ex_app ex_app
# hadolint ignore=DL3013
RUN pip install ".[bundled]"

FROM build AS model
ARG EMBED_MODEL_ID=intfloat/multilingual-e5-small
ARG EMBED_MODEL_REVISION=614241f622f53c4eeff9890bdc4f31cfecc418b3
# Only what sentence-transformers loads. The folder keeps the model's name, which tells which prompts it wants.
RUN hf download "${EMBED_MODEL_ID}" --revision "${EMBED_MODEL_REVISION}" \
        --include "*.json" --include "*.safetensors" --include "*.model" --exclude "onnx/*" --exclude "openvino/*" \
        --local-dir "/opt/models/${EMBED_MODEL_ID}" \
    && rm -rf "/opt/models/${EMBED_MODEL_ID}/.cache"

FROM python:${PYTHON}
ARG EMBED_MODEL_ID=intfloat/multilingual-e5-small
LABEL org.opencontainers.image.title="Semantic Search for Nextcloud" \
      org.opencontainers.image.licenses="AGPL-3.0-or-later"

# libunwind8: Qdrant. tini: reaps what the parsers leave. AppAPI's volume takes over the folder's owner when it is new.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libunwind8 tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --create-home --uid 990 semantic \
    && install --directory --owner semantic --group semantic --mode 0700 /nc_app_semantic_search_data /certs/frp

COPY --from=qdrant /qdrant/qdrant /usr/local/bin/qdrant
COPY --from=frp /usr/bin/frpc /usr/local/bin/frpc
COPY --from=build /opt/venv /opt/venv
COPY --from=model /opt/models /opt/models
COPY --chmod=0755 docker/start.sh /usr/local/bin/start

# AppAPI sets the first three itself, and EMBED_MODEL if its form has a value.
ENV APP_HOST=0.0.0.0 \
    APP_PORT=23000 \
    APP_PERSISTENT_STORAGE=/nc_app_semantic_search_data \
    EMBED_MODEL=/opt/models/${EMBED_MODEL_ID} \
    PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HF_HUB_OFFLINE=1 \
    TRANSFORMERS_OFFLINE=1

HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=6 \
    CMD ["python", "-c", "import os, urllib.request as r; h = os.environ['APP_HOST']; r.urlopen(f\"http://{'127.0.0.1' if h == '0.0.0.0' else h}:{os.environ['APP_PORT']}/heartbeat\", timeout=3)"]

# Starts as root to take over what AppAPI mounts and copies, then runs as `semantic`.
ENTRYPOINT ["tini", "-g", "--", "start"]
CMD ["python", "-m", "ex_app"]
