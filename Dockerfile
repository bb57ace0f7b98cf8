# The harness with pinned versions. With a GPU: docker run --gpus all -v harness:/state IMAGE run baseline --round satml-dev
FROM python:3.12-slim

WORKDIR /opt/harness
COPY requirements.lock ./
RUN pip install --no-cache-dir --require-hashes --no-deps -r requirements.lock
# Without a GPU: --build-arg TORCH_INDEX="--index-url https://download.pytorch.org/whl/cpu"
ARG TORCH_INDEX=""
RUN pip install --no-cache-dir torch==2.13.0 ${TORCH_INDEX}

COPY pyproject.toml README.md LICENSE ./
COPY harness harness
COPY attacks attacks
RUN pip install --no-cache-dir --no-deps --no-build-isolation . && pip check

# Runs need no root rights. landlock is their sandbox, because bubblewrap does not work in a container without privileges.
RUN useradd --create-home --uid 1000 harness && install --directory --owner harness --group harness /state
USER harness
ENV HARNESS_HOME=/state/runs-home HARNESS_DATA=/state/data HARNESS_CACHE=/state/cache HF_HOME=/state/huggingface
VOLUME /state
ENTRYPOINT ["harness"]
CMD ["--help"]
