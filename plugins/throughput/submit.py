"""What spark-submit is given: `spark-submit --master URL .../plugins/throughput/submit.py --input DIR --output DIR`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
