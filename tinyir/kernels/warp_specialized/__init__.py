"""A contraction on sm90: a producer warp fills a ring by TMA, warpgroups multiply by wgmma."""
