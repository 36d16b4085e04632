shared |user age:1.36 device:laptop returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:0.4 device:phone returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.48 device:laptop returning:0
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:1.12 device:phone returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:0.9 device:laptop returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:0.84 device:phone returning:1
|layout grid
0:-1:0.3 |layout list
|layout story

shared |user age:0.82 device:phone returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:1.22 device:laptop returning:0
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:1.4 device:phone returning:1
|layout grid
0:-1:0.3 |layout list
|layout story

shared |user age:1.12 device:phone returning:1
|layout grid
|layout list
0:-1:0.2 |layout story

shared |user age:0.92 device:phone returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:1.1 device:laptop returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:1.12 device:laptop returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.46 device:phone returning:1
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:0.76 device:laptop returning:1
|layout grid
|layout list
0:0:0.2 |layout story

shared |user age:0.82 device:laptop returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:0.94 device:phone returning:1
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:0.78 device:laptop returning:1
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:0.88 device:laptop returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.86 device:laptop returning:0
|layout grid
0:-1:0.3 |layout list
|layout story

shared |user age:0.94 device:phone returning:0
|layout grid
0:-1:0.3 |layout list
|layout story

shared |user age:0.74 device:laptop returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:1.4 device:phone returning:1
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.96 device:phone returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.4 device:phone returning:1
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:0.8 device:laptop returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.8 device:laptop returning:1
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:1.26 device:phone returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:1.4 device:phone returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:1.14 device:laptop returning:1
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:1.38 device:phone returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:0.44 device:laptop returning:1
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:0.46 device:phone returning:1
|layout grid
|layout list
0:0:0.2 |layout story

shared |user age:1.4 device:phone returning:1
|layout grid
|layout list
0:-1:0.2 |layout story

shared |user age:0.56 device:laptop returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:1.16 device:laptop returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.74 device:phone returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.52 device:laptop returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:1.08 device:laptop returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:0.66 device:phone returning:1
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:0.84 device:phone returning:0
|layout grid
|layout list
0:-1:0.2 |layout story

shared |user age:1.14 device:laptop returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:0.74 device:phone returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.78 device:laptop returning:1
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:0.36 device:laptop returning:0
|layout grid
0:-1:0.3 |layout list
|layout story

shared |user age:1.32 device:laptop returning:0
|layout grid
|layout list
0:0:0.2 |layout story

shared |user age:1.22 device:laptop returning:1
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:0.62 device:phone returning:1
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.6 device:phone returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.44 device:phone returning:1
|layout grid
|layout list
0:0:0.2 |layout story

shared |user age:1.04 device:laptop returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:1.16 device:laptop returning:1
|layout grid
|layout list
0:0:0.2 |layout story

shared |user age:1.3 device:laptop returning:1
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:0.52 device:phone returning:0
|layout grid
0:-1:0.3 |layout list
|layout story

shared |user age:1.06 device:laptop returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:1.14 device:laptop returning:1
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:0.62 device:laptop returning:1
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:1.32 device:laptop returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.68 device:laptop returning:0
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:0.88 device:laptop returning:1
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:1.3 device:phone returning:1
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.98 device:phone returning:1
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:1.08 device:laptop returning:1
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.66 device:phone returning:1
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.98 device:phone returning:0
|layout grid
0:-1:0.3 |layout list
|layout story

shared |user age:0.52 device:phone returning:0
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:1.24 device:phone returning:1
|layout grid
|layout list
0:-1:0.2 |layout story

shared |user age:1.24 device:phone returning:0
|layout grid
0:-1:0.3 |layout list
|layout story

shared |user age:0.38 device:phone returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.84 device:phone returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:1.26 device:laptop returning:1
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:1.34 device:laptop returning:1
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.58 device:laptop returning:0
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:0.4 device:laptop returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:1.02 device:laptop returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:0.68 device:laptop returning:1
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:0.7 device:laptop returning:0
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:0.86 device:phone returning:0
|layout grid
0:-1:0.3 |layout list
|layout story

shared |user age:1.38 device:laptop returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.62 device:laptop returning:1
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:1.34 device:laptop returning:1
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:0.74 device:laptop returning:1
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.46 device:phone returning:1
|layout grid
0:-1:0.3 |layout list
|layout story

shared |user age:1.34 device:laptop returning:1
|layout grid
|layout list
0:-1:0.2 |layout story

shared |user age:1.24 device:laptop returning:1
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:0.46 device:phone returning:1
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:1.12 device:phone returning:0
|layout grid
|layout list
0:0:0.2 |layout story

shared |user age:1.04 device:phone returning:1
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:0.8 device:phone returning:0
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:0.96 device:laptop returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:1.26 device:phone returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:1.1 device:laptop returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.54 device:laptop returning:1
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:0.92 device:laptop returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:1.22 device:phone returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:1.18 device:phone returning:1
|layout grid
0:-1:0.3 |layout list
|layout story

shared |user age:0.9 device:phone returning:0
|layout grid
|layout list
0:0:0.2 |layout story

shared |user age:1.18 device:laptop returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:1.1 device:laptop returning:0
0:-1:0.5 |layout grid
|layout list
|layout story

shared |user age:0.44 device:laptop returning:1
|layout grid
|layout list
0:0:0.2 |layout story

shared |user age:1.38 device:phone returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.64 device:phone returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:0.46 device:phone returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:1.22 device:laptop returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.6 device:laptop returning:1
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:0.4 device:laptop returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:1.2 device:phone returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.4 device:laptop returning:0
|layout grid
0:-1:0.3 |layout list
|layout story

shared |user age:1.36 device:laptop returning:0
|layout grid
|layout list
0:-1:0.2 |layout story

shared |user age:1.32 device:phone returning:0
|layout grid
0:-1:0.3 |layout list
|layout story

shared |user age:1.18 device:laptop returning:1
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.9 device:phone returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:0.46 device:laptop returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:0.4 device:laptop returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:0.46 device:laptop returning:1
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:0.8 device:phone returning:0
|layout grid
0:-1:0.3 |layout list
|layout story

shared |user age:0.52 device:laptop returning:1
|layout grid
|layout list
0:0:0.2 |layout story

shared |user age:1.38 device:phone returning:0
0:0:0.5 |layout grid
|layout list
|layout story

shared |user age:1.26 device:laptop returning:0
|layout grid
0:0:0.3 |layout list
|layout story

shared |user age:1.16 device:laptop returning:0
0:-1:0.5 |layout grid
|layout list
|layout story

