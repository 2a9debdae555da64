"""The script for spark-submit: `spark-submit --master URL .../message_log/submit.py --input DIR --output DIR`."""

import sys

from warren.plugins.message_log.cli import main  # by its whole name: a script is in no package

if __name__ == "__main__":
    sys.exit(main())
