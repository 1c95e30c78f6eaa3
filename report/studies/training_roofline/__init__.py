"""training_roofline: does an older data-centre GPU train more efficiently than a laptop's?"""
