"""What brings the calls of a study to other machines: Ray, and Slurm by way of submitit."""
