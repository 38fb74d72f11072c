"""Whether speculation pays, on this machine and these prompts: a measured sweep.

`texts` are the prompts, `sweep` decodes them in turns, `rivals` are other people's engines on
the same weights, `figures` makes numbers of what was decoded, `report` writes them down.
"""
