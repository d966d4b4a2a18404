//! Reader of what the XLA compiler returns: optimized HLO modules and buffer assignments.
