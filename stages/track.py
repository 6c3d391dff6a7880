"""Log every stage's params, metrics and figures to MLflow."""

from shiyan.config import TrackParams, load_params
from shiyan.stage import run_stage
from shiyan.tracking import track


def main() -> None:
    track(load_params("track", TrackParams).experiment)


if __name__ == "__main__":
    # Its own failures are not noted: where MLflow cannot be reached, no run can tell of it.
    run_stage(main, noted=False)
