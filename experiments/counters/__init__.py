"""Counters of executed work: Nsight Compute on a GPU, valgrind's lackey on a CPU."""
