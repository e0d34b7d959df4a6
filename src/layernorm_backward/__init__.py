"""How the layer-normalization backward pass should be computed, answered by measurement.

`experiments` make tables; `figures` draw them; `paper` judges claims over them and writes. What experiments
work with:

    kernels                       layer norms, ours, the published ones and other packages' on the CPU
    peers_at_work, peers_on_gpu   other packages, to be timed beside them
    encoder                       a trained network, for the rows that its layer norms see
    derivations, gradient_check   ways to the gradients, and whether a backward pass gives them
    theory, tolerances            how far off rounding may bring it, and how far a test may let it be
    traffic, counters             operations and accesses by a model, and bytes counted by the machine
    roofs, timing, gpu            what the machine can do at most; how passes are timed, here and on a GPU
    untrusted                     somebody's code, which may raise, hang, or return what does not fit
    audit, bench                  the commands that check and time a reader's own kernel
    studies, records              what a run is told, and what it leaves: tables, their records, the archive
    host, storage                 what the system tells of the machine, and files, read and written

Imports go from the commands and experiments down; the modules beside this file are used by all.
"""

__version__ = "0.1.0"
