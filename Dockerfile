# One image for every process: servers, workers, migrations, the command line. Compose names the command.
FROM python:3.12-slim AS build

WORKDIR /app
ENV UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy PIP_DISABLE_PIP_VERSION_CHECK=1
COPY requirements/ requirements/
RUN python -m venv /venv \
 && /venv/bin/pip install --require-hashes --only-binary :all: -r requirements/bootstrap.lock \
 && /venv/bin/uv pip install --python /venv/bin/python --no-build --require-hashes -r requirements/runtime.lock
# The sources stay a folder of their own: a change of code is a layer of kilobytes, not of the environment.
COPY libs/ libs/
COPY services/ services/
COPY cli/ cli/

FROM python:3.12-slim

# The same numbers as in compose: files in the volumes keep their owner from one release to the next.
RUN groupadd --gid 10001 frontrow \
 && useradd --uid 10001 --gid frontrow --create-home --home-dir /var/lib/frontrow frontrow
# Volumes take the owner of the folder that they are first mounted on.
RUN install -d -o frontrow -g frontrow /tokens /database /identity /identities/authority /identities/task \
    /identities/review /identities/asr /identities/ingest /identities/ingest-worker /identities/asr-worker \
    /identities/slicing-worker /identities/cli
COPY --from=build /venv /venv
COPY --from=build /app /app
WORKDIR /app
ENV PATH=/venv/bin:$PATH \
    PYTHONPATH=/app:/app/libs/client \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    FRONTROW_DATA_DIR=/var/lib/frontrow/data
USER frontrow
# Without a command: everything in one process, with its own PostgreSQL, in the volume.
VOLUME /var/lib/frontrow
STOPSIGNAL SIGTERM
CMD ["python", "-m", "services"]
