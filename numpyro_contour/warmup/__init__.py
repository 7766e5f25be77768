"""The warm-up of all chains: the search that it begins with, and the two drivers of its stages.

`host` makes it in Python, a program for each kind of stage; `traced` makes it in one program.
`stages` holds the plan and what a stage does with one chain. This room imports `stages`, `modes`,
`energies`, `models`, `core` and the parts of a kernel.
"""
