"""What regularised methods add to fine-tuning, each as functions of a model and its outputs."""
