import flax.linen as nn
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.module import random_flax_module
from numpyro.infer import MCMC

import numpyro_contour as nc


class Network(nn.Module):
    @nn.compact
    def __call__(self, x, train=True):
        x = nn.Conv(6, (3, 3))(x)
        x = nn.BatchNorm(use_running_average=not train)(x)
        return nn.Dense(3)(nn.relu(x).mean((1, 2)))


def model(images, labels=None):
    training = nc.training()
    net = random_flax_module(
        "net", Network(), dist.Normal(0, 1), images[:1], mutable=["batch_stats"]
    )
    with numpyro.plate("images", len(images), subsample_size=40) as idx:
        x = images[idx]
        if training:  # an augmentation: mirror some of the images
            mirrored = jax.random.bernoulli(nc.step_key(), 0.5, (len(x), 1, 1, 1))
            x = jax.numpy.where(mirrored, x[:, :, ::-1], x)
        logits = net(x, train=training)
        numpyro.deterministic("p", jax.nn.softmax(logits))
        observed = None if labels is None else labels[idx]
        numpyro.sample("label", dist.Categorical(logits=logits), obs=observed)


rng = np.random.default_rng(0)
labels = rng.integers(0, 3, 500)
up, right = np.mgrid[:8, :8]
patterns = np.stack([np.sin(2 * up), np.sin(2 * right), np.sin(1.4 * (up + right))])
images = patterns[labels] + 1.5 * rng.normal(size=(500, 8, 8))
images = images[..., None].astype(np.float32)
train, test = slice(0, 300), slice(300, None)

mcmc = MCMC(
    nc.SGHMC(model, step_size=3e-4, num_steps=50),
    num_warmup=40,
    num_samples=60,
    num_chains=2,
    chain_method="vectorized",
    progress_bar=False,
)
mcmc.run(jax.random.key(0), images[train], labels[train])

mean = nc.predictive_mean(mcmc, images[test])["p"]
one = nc.predictive(mcmc, jax.random.key(1), images[test], return_sites=["p"])["p"][0, -1]
for name, p in {"the average": mean, "the last draw": np.asarray(one)}.items():
    right = (p.argmax(-1) == labels[test]).mean()
    score = np.log(p[np.arange(200), labels[test]]).mean()
    print(f"{name}: {right:.0%} right, {score:.3f} nats an image")
