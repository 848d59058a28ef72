"""Updates folded by atomics into a tensor that another kernel has written before."""
