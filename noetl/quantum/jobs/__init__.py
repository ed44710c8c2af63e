"""Jobs on machines elsewhere, from sending to collecting, and what a checkpoint holds of them."""
