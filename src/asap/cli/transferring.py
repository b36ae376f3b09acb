"""`asap transfer`: a new run that starts from what another run has learned."""

import json
import os

from asap.cli.training import create_run, in_words, leave_if_stopped, train_to_end
from asap.config.schema import Config


def transfer_run(config: Config, out: str | None, as_json: bool) -> None:
    from asap.summary import summary

    run = create_run(config, out, stem=f"{'+'.join(config.run.tasks)}-from-{os.path.basename(config.run.source)}")
    result, stop = train_to_end(run, config)
    first = {
        "episodes": result.curve.episodes[0],
        "return": result.curve.returns[0],
        "success": result.curve.success[0],
    }
    report = {
        **summary(result, str(run.path)),
        "source": config.run.source,
        "start": {name: values.tolist() for name, values in first.items()},
    }
    if as_json:
        print(json.dumps(report))
    else:
        print(
            f"before learning   return {first['return'].mean():.1f}, success {100 * first['success'].mean():.1f} % (means over seeds)"
        )
        print(in_words(report))
    leave_if_stopped(run, stop)
