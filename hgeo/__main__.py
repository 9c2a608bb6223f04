import sys

from hgeo.cli import main

sys.exit(main())
