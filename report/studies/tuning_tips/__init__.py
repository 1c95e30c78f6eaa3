"""Which CPU tuning tips of PyTorch survive?"""
