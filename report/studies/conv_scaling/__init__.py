"""conv_scaling: how one convolution grows in work, memory and time with the batch size."""
