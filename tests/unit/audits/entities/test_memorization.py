"""A model with known training data: trained names have a higher M-MEM, and others do not."""

from pathlib import Path

import numpy as np
import pytest

from harness.audits.entities.audit import NameProbe
from harness.audits.entities.measures import chance_error, score_pairs
from harness.audits.entities.prompts import read_prompts
from tests.demo_target.classifiers import NAMES, Family, fine_tune, invented_names
from tests.unit.audits.in_memory import target_configs

pytestmark = pytest.mark.slow


def test_trained_names_have_a_higher_m_mem(tmp_path: Path):
    # All names come from one random list. The model was trained on some of them, and on places that look alike.
    names = invented_names(NAMES)
    fine_tune(Family.BERT, names, tmp_path, steps=150)
    probe = NameProbe(*target_configs(tmp_path), [*names.read, *names.unread, *names.other_unread], (), by_set=False)
    prompts = read_prompts(None)[0][::16]
    confidences = np.array([probe.confidences(prompt) for prompt in prompts])
    read, unread, other_unread = np.split(confidences, 3, axis=1)
    four_errors = 4 * chance_error(NAMES, NAMES)
    trained = np.array([score_pairs(*of).m_mem for of in zip(read, unread, strict=True)])
    unseen = np.array([score_pairs(*of).m_mem for of in zip(other_unread, unread, strict=True)])
    assert trained.mean() > 0.5 + four_errors
    assert (trained > 0.5 + four_errors / 2).mean() > 0.9
    assert (abs(unseen - 0.5) < four_errors).all()
