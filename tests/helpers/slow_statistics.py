"""Statistics of weighted draws by their definitions, one scalar after the other.

They share no code with the package, and take ArviZ's effective sample size. Draws and weights are
(chains, draws), the weights of each chain of mean 1.
"""

import arviz as az
import numpy as np
from scipy import stats


def mean(x, w):
    return float(np.average(x.ravel(), weights=w.ravel()))


def variance(x, w):
    total = w.sum()
    return (w * (x - mean(x, w)) ** 2).sum() / (total - (w**2).sum() / total)


def sd(x, w):
    return variance(x, w) ** 0.5


def in_order(x, w):
    pairs = sorted(
        ((value, i) for i, value in enumerate(x.ravel()) if w.ravel()[i] > 0),
        key=lambda pair: pair[0],
    )
    return np.array([v for v, _ in pairs]), np.array([w.ravel()[i] for _, i in pairs])


def quantile(x, w, prob):
    values, weights = in_order(x, w)
    places = [weights[:k].sum() + weights[k] / 2 for k in range(len(weights))]
    places = (np.array(places) - places[0]) / (places[-1] - places[0])
    return float(np.interp(prob, places, values))


def hdi(x, w, prob):
    values, weights = in_order(x, w)
    best = (values[0], values[-1])
    for i in range(len(values)):
        inside = np.cumsum(weights[i:]) > prob * weights.sum()
        if inside.any():
            end = values[i + int(inside.argmax())]
            if end - values[i] < best[1] - best[0]:
                best = (values[i], end)
    return best


def mad(x, w):
    return quantile(np.abs(x - quantile(x, w, 0.5)), w, 0.5)


def halves(x):
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def normal_scores(x, w):
    scores = np.empty(x.shape)
    for place, value in np.ndenumerate(x):
        rank = w[x < value].sum() + w[x == value].sum() / 2 + 0.5
        scores[place] = stats.norm.ppf((rank - 0.375) / (w.sum() + 0.25))
    return scores


def ess_of_mean(x, w, method="mean"):
    influence = w * (x - mean(x, w))
    return float(az.ess(influence, method=method)) * variance(x, w) / influence.var(ddof=1)


def ess_bulk(x, w):
    split, of_split = halves(x), halves(w)
    of_split = of_split / of_split.mean()
    return ess_of_mean(normal_scores(split, of_split), of_split, "identity")


def ess_sd(x, w):
    return ess_of_mean((x - mean(x, w)) ** 2, w)


def ess_tail(x, w, levels=(0.05, 0.95)):
    return min(ess_of_mean((x <= quantile(x, w, q)).astype(float), w) for q in levels)


def mcse_mean(x, w):
    influence = w * (x - mean(x, w))
    return influence.std(ddof=1) / float(az.ess(influence, method="mean")) ** 0.5


def mcse_sd(x, w):
    squares = (x - mean(x, w)) ** 2
    influence = w * (squares - mean(squares, w))
    size = float(az.ess(influence, method="mean"))
    return ((influence**2).mean() / size / mean(squares, w)) ** 0.5 / 2


def mcse_median(x, w):
    size = ess_of_mean((x <= quantile(x, w, 0.5)).astype(float), w)
    ends = stats.beta.ppf([0.1586553, 0.8413447], size / 2 + 1, size / 2 + 1)
    values, weights = in_order(x, w)
    reached = np.cumsum(weights) / weights.sum()
    return (values[(reached < ends[1]).sum()] - values[(reached <= ends[0]).sum() - 1]) / 2


def rhat(x, w):
    split, of_split = halves(x), halves(w)
    of_split = of_split / of_split.mean()
    away = np.abs(split - quantile(split, of_split, 0.5))
    return max(rhat_of(normal_scores(one, of_split), of_split) for one in (split, away))


def rhat_of(scores, w):
    means = [mean(s[None], v[None]) for s, v in zip(scores, w)]
    within = np.mean([variance(s[None], v[None] / v.mean()) for s, v in zip(scores, w)])
    draws = scores.shape[1]
    return (np.var(means, ddof=1) / within + (draws - 1) / draws) ** 0.5
