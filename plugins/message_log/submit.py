"""The script for spark-submit: `spark-submit --master URL .../message-log/submit.py --input DIR --output DIR`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
