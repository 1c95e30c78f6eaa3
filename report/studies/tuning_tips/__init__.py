"""tuning_tips: which tips of PyTorch's tuning guide speed up networks on a CPU?"""
