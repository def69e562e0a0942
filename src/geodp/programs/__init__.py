"""Programs: releases that take several looks at the records, each through what the earlier ones released."""
