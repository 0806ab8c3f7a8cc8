"""The learners that have an asset of their own, in the order in which they learn from each other.

Adding one is its module and one line here.
"""

from assets import evaluation, lessons, memory_index, path_scorecard, routing_weights
from assets.learner_asset import learner_assets

LEARNERS = (
    memory_index.SHOWN,
    path_scorecard.SHOWN,
    routing_weights.SHOWN,
    evaluation.SHOWN,
    lessons.SHOWN,
)
learning = learner_assets("learning", *LEARNERS)
