"""Three named configurations of ACB: the paper's text, the authors' released code, and what our own evidence chose."""

from optimist.bonuses.acb_config import ACBConfig

PAPER = ACBConfig(
    features="gradient",  # section 3, equation 1: the gradient in theta
    sketch_size=32,  # not used: no sketch in the paper
    weighting="none",  # equation 1: the plain log-loss
    statistics="running",  # section 4: "batch normalization is applied"; which statistics is not said
    epsilon=1e-5,  # not said; torch's default
    epsilon_form="absolute",  # not said; batch normalisation's own form
    affine=False,  # not said
    ensemble_size=128,  # section 4: "an ensemble of 128 auxiliary weights"
    prior="uniform",  # Algorithm 2, line 1: "initialize"; how is not said, torch's default for a linear layer
    ridge=1.0,  # not used: the prior is uniform and the solver RMSprop
    solver="rmsprop",  # section 4: "the RMSprop variant of SGD"
    step_size=1e-4,  # appendix A.2: "a learning rate of 0.0001 ... universally"
    smoothing=0.99,  # not said; torch's default
    optimizer_epsilon=1e-8,  # not said; torch's default
    pull=1e3,  # section 4: "regularize aggressively towards their initialization with lambda = 10^3"
    loss_form="sum",  # Algorithm 2, line 10: lambda |w - w_0|^2 for each member
    averaging="uniform",  # section 4: "a Polyak-averaged version of the ensemble"
    averaging_rate=0.01,  # not used: the average is uniform
    targets="fresh",  # Algorithm 2, line 10: drawn at the update
    passes=1,  # Algorithm 2: one update every tau steps, tau = 128^2, which is a rollout
    minibatches=1,  # as above
    minibatch_size=128,  # Algorithm 2 has one state g_t; batch normalisation needs a batch: 128, as the released code
    fraction=1.0,  # not said
    aggregate="max",  # Algorithm 2, line 6
    form="square",  # Algorithm 2, line 6
    train_on="next_observations",  # Algorithm 2: trained on the states that are rewarded
    auxiliary_rate=1e-6,  # section 4: alpha = 10^-6
    auxiliary_biases=True,  # Algorithm 2, line 12: all of theta
)
"""The paper's text. Where it says nothing the field says so."""

RELEASED = ACBConfig(
    features="gradient",  # trunk and actor, weights and biases, no critic
    sketch_size=32,  # not used: no sketch in the code
    weighting="sqrt-probability",  # the log-loss times sqrt(p_argmax), p detached
    statistics="batch",  # BatchNorm1d always in training mode: relative to the states of that step
    epsilon=1e-5,  # BatchNorm1d's default
    epsilon_form="absolute",  # BatchNorm1d's form, which hardly whitens: "the eps trap"
    affine=True,  # BatchNorm1d's default; trained with the ensemble, never copied to the average that is read
    ensemble_size=128,  # numAux
    prior="uniform",  # torch.nn.Linear without bias: U(-1/sqrt d, 1/sqrt d)
    ridge=1.0,  # not used: the prior is uniform and the solver RMSprop
    solver="rmsprop",  # optFun
    step_size=1e-4,  # lr
    smoothing=0.99,  # torch's default
    optimizer_epsilon=1e-8,  # torch's default
    pull=0.0,  # written as 1e3 times a mean, but w_0 is an alias of w: always exactly 0
    loss_form="mean",  # mse_loss: the mean over states and members
    averaging="uniform",  # iterateAve = 1: the mean of all iterates since the start, w_0 not among them
    averaging_rate=0.01,  # not used: the average is uniform
    targets="per-rollout",  # drawn once a rollout, tied to the state for the four epochs
    passes=4,  # the four epochs of PPO
    minibatches=4,  # the four minibatches of an epoch: 16 updates a rollout
    minibatch_size=128,  # the first 128 of a permutation of the masked states
    fraction=0.25,  # the mask of a minibatch of 4,096
    aggregate="max",  # the maximum of squares
    form="square",  # as above
    train_on="observations",  # trained on s_t, while the bonus is that of s_{t+1}
    auxiliary_rate=1e-6,  # tau, once a rollout
    auxiliary_biases=False,  # weights only: the biases stay the initial ones
)
"""The behaviour of github JordanAsh/acb (2022), each field as FACTS.md section 1 records it."""

DEFAULT = ACBConfig()
"""What our own evidence shows to work best: the defaults of `ACBConfig`, each with its reason there."""

PRESETS = {"paper": PAPER, "released": RELEASED, "default": DEFAULT}
