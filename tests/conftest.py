"""All tests run with the package registered, whatever each of them imports and in whichever order."""

import deepnmt

deepnmt.register()
